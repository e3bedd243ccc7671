-- Reads all signals in runs' inboxes.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.run, found.name, found.seq, found.data
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(run, most, n)
 cross join lateral (
        select signal.run, signal.name, signal.seq, signal.data
          from signal
         where signal.run = wanted.run
         order by signal.name, signal.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.name, found.seq
