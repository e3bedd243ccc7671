-- Counts the runs of definitions that have not ended, each up to a number.
--
-- $1 lane   $2 how many at the most (arrays: one place for each count)
-- Locks nothing. Index: run_lane, alone where the table was vacuumed.
-- Returns the count's place first, from 1.
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
