-- Counts the runs of definitions that engines own, each up to a number.
--
-- $1 lane   $2 how many at the most (arrays: one place for each count)
-- Locks nothing. Index: run_owner, once and all of it: as many as all engines drive. By lane it
-- would read all that wait as well.
-- Returns the count's place first, from 1.
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
