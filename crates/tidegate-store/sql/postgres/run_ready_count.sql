-- Counts the ready runs of definitions, each up to a limit.
--
-- $1 workspace   $2 workflow   $3 lane   $4 limit (arrays: one element per count)
-- Locks nothing. Index: run_ready, index-only where the table was vacuumed.
-- First column: index of the count, from 1.
select wanted.n, found.count
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
       with ordinality as wanted(ws, ready, lane, most, n)
 cross join lateral (
        select count(*) as count
          from (select 1
                  from run
                 where (run.ws, run.ready, run.lane)
                       between (wanted.ws, wanted.ready, wanted.lane)
                           and (wanted.ws, wanted.ready, wanted.lane)
                   and run.ready is not null
                 order by run.ws, run.ready, run.lane
                 limit wanted.most) as first
       ) as found
 order by wanted.n
