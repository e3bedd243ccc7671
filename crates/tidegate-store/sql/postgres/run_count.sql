-- Counts the runs of definitions that have not ended, each up to a limit.
--
-- $1 lane   $2 limit (arrays: one element per count)
-- Locks nothing. Index: run_lane, index-only where the table was vacuumed.
-- First column: index of the count, from 1.
select wanted.n, found.count
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(lane, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where run.lane between wanted.lane and wanted.lane
                 order by run.lane, run.seq
                 limit wanted.most) as first
       ) as found
 order by wanted.n
