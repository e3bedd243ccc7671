-- Reads items of batches by key.
--
-- $1 run   $2 n (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.run, found.n, found.event_seq, found.event_salt
  from unnest($1::bigint[], $2::bigint[])
       as wanted(run, n)
 cross join lateral (
        select item.run, item.n, item.event_seq, item.event_salt
          from item
         where (item.run, item.n) between (wanted.run, wanted.n) and (wanted.run, wanted.n)
         order by item.run, item.n
         limit 1
       ) as found
