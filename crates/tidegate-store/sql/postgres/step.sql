-- name: step_of_run
-- Reads all steps of runs.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(run, most, n)
 cross join lateral (
        select {step.columns}
          from step
         where step.run = wanted.run
         order by step.id
         limit wanted.most
       ) as found
 order by wanted.n, found.id
