-- Locks chores by key and reads them as they are once the locks are there.
--
-- $1 seq (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
select found.seq, found.salt, found.ws, found.topic, found.due, found.work
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select chore.seq, chore.salt, chore.ws, chore.topic, chore.due, chore.work
          from chore
         where chore.seq between wanted.seq and wanted.seq
         order by chore.seq
         limit 1
           for no key update
       ) as found
