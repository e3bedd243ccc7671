-- Reads all signals in runs' inboxes.
--
-- $1 run   $2 how many (arrays: one place for each scan)
-- Locks nothing. Index: the primary key.
-- Returns the scan's place first, from 1.
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
