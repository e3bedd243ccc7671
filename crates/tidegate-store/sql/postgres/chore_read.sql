-- Reads chores by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.seq, found.salt, found.ws, found.topic, found.due, found.work
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select chore.seq, chore.salt, chore.ws, chore.topic, chore.due, chore.work
          from chore
         where chore.seq between wanted.seq and wanted.seq
         order by chore.seq
         limit 1
       ) as found
