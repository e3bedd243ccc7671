-- Locks ready runs of lanes, by rank, and skips those that others lock.
--
-- $1 lanes   $2 how many
-- Never waits. Each lane offers four times as many as are wanted, so that three others who take
-- the best at this moment leave enough. `ready` is asked again of the row as it is under the lock,
-- in words that no index answers: a plan made while the table was empty would read all that is
-- ready (12 ms instead of 1 ms at 100,000).
-- Index: run_ready, once for each lane, so that no lane's backlog is sorted.
select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
       run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past, run.parked
  from run
 where run.seq = any(array(
            select candidate.seq
              from unnest($1::bigint[]) as lanes(lane)
             cross join lateral (
                    select run.seq
                      from run
                     where run.ready = lanes.lane
                     order by run.ready, run.order_at, run.order_seq, run.seq
                     limit 4 * $2::bigint
                   ) as candidate
       ))
   and coalesce(run.ready, -1) = any($1::bigint[])
 order by run.order_at, run.order_seq, run.seq
 limit $2::bigint
   for no key update skip locked
