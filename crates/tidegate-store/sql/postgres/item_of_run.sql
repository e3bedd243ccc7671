-- Reads all items of batches.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.run, found.n, found.event_seq, found.event_salt
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(run, most, n)
 cross join lateral (
        select item.run, item.n, item.event_seq, item.event_salt
          from item
         where item.run = wanted.run
         order by item.n
         limit wanted.most
       ) as found
 order by wanted.n, found.n
