-- Reads the newest runs of lanes that have not ended.
--
-- $1 lanes   $2 below   $3 limit
-- Locks nothing: a hint. Indexes: run_lane, once for each lane, so that no lane's runs are sorted;
-- the primary key, once for each run (README).
select found.seq, found.salt, found.ws, found.lane, found.ready, found.line, found.tier,
       found.order_at, found.order_seq, found.due, found.owner, found.fence, found.body,
       found.event_seq, found.past, found.parked
  from (select place.seq
          from (select distinct unnest($1::bigint[])) as lanes(lane)
         cross join lateral (
                select run.seq
                  from run
                 where (run.lane, run.seq) < (lanes.lane, $2::bigint)
                   and run.lane >= lanes.lane
                 order by run.lane desc, run.seq desc
                 limit $3::bigint
               ) as place
         order by place.seq desc
         limit $3::bigint) as candidate
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
               run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past,
               run.parked
          from run
         where run.seq between candidate.seq and candidate.seq
         order by run.seq
         limit 1
       ) as found
 order by found.seq desc
