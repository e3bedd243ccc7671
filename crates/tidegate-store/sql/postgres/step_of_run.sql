-- Reads all steps of runs.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, found.run, found.id, found.kind, found.fence, found.at, found.ok,
       found.out, found.seq
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(run, most, n)
 cross join lateral (
        select step.run, step.id, step.kind, step.fence, step.at, step.ok, step.out, step.seq
          from step
         where step.run = wanted.run
         order by step.id
         limit wanted.most
       ) as found
 order by wanted.n, found.id
