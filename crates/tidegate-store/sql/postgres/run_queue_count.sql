-- Counts the runs in gates' queues, each up to a limit.
--
-- $1 the gate's key   $2 limit (arrays: one element per count)
-- Locks nothing. Index: run_line, index-only where the table was vacuumed.
-- First column: index of the count, from 1.
select wanted.n, found.count
  from unnest($1::bytea[], $2::bigint[])
       with ordinality as wanted(key, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where run.line = (select gate.id from gate where gate.key = wanted.key)
                 limit wanted.most) as first
       ) as found
 order by wanted.n
