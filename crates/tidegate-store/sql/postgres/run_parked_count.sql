-- Counts the runs of definitions that wait or are paused, each up to a number.
--
-- $1 lane   $2 `waiting` or `paused`   $3 how many at the most (arrays: one place for each count)
-- Locks nothing. Index: run_parked, alone where the table was vacuumed.
-- Returns the count's place first, from 1.
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
