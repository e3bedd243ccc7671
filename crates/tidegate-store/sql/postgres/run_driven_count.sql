-- Counts the runs of definitions that engines own, each up to a limit.
--
-- $1 lane   $2 limit (arrays: one element per count)
-- Locks nothing. Index: run_owner, once and all of it: as many entries as runs that engines drive.
-- An index by lane would also read all waiting runs.
-- First column: index of the count, from 1.
with driven as materialized (
    select owned.lane, count(*) as count
      from (select run.lane
              from run
             where run.owner is not null
             order by run.owner, run.seq) as owned
     group by owned.lane
)
select wanted.n, least(coalesce(driven.count, 0), wanted.most)
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(lane, most, n)
  left join driven
    on driven.lane = wanted.lane
 order by wanted.n
