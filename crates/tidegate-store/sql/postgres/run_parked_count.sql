-- Counts the runs of definitions that wait or are paused, each up to a limit.
--
-- $1 lane   $2 `waiting` or `paused`   $3 limit (arrays: one element per count)
-- Locks nothing. Index: run_parked, index-only where the table was vacuumed.
-- First column: index of the count, from 1.
select wanted.n, found.count
  from unnest($1::bigint[], $2::text[], $3::bigint[])
       with ordinality as wanted(lane, parked, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where (run.lane, run.parked) between (wanted.lane, wanted.parked)
                                                  and (wanted.lane, wanted.parked)
                   and run.parked is not null
                 order by run.lane, run.parked
                 limit wanted.most) as first
       ) as found
 order by wanted.n
