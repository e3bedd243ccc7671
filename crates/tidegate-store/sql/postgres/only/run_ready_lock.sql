-- Locks ready runs of lanes, by rank, and skips those that others lock.
--
-- $1 lanes   $2 how many
-- Never waits. Each lane offers four times as many as are wanted, so that three others who take
-- the best at this moment leave enough; it stops at the last that is wanted. `ready` is asked
-- again of the row as it is under the lock, in words that no index answers.
-- Indexes: run_ready, once for each lane, so that no lane's backlog is sorted; the primary key,
-- once for each run (README).
select found.seq, found.salt, found.ws, found.lane, found.ready, found.line, found.tier,
       found.order_at, found.order_seq, found.due, found.owner, found.fence, found.body,
       found.event_seq, found.past, found.parked
  from (select place.seq
          from (select distinct unnest($1::bigint[])) as lanes(lane)
         cross join lateral (
                select run.seq, run.order_at, run.order_seq
                  from run
                 where run.ready = lanes.lane
                 order by run.ready, run.order_at, run.order_seq, run.seq
                 limit 4 * $2::bigint
               ) as place
         order by place.order_at, place.order_seq, place.seq) as candidate
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
               run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past,
               run.parked
          from run
         where run.seq between candidate.seq and candidate.seq
           and coalesce(run.ready, -1) = any($1::bigint[])
         order by run.seq
         limit 1
           for no key update skip locked
       ) as found
 limit $2::bigint
