-- Reads ready runs of lanes, by rank.
--
-- $1 lanes   $2 how many
-- Locks nothing. Index: run_ready, once for each lane, so that no lane's backlog is sorted.
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
                     limit $2::bigint
                   ) as candidate
       ))
 order by run.order_at, run.order_seq, run.seq
 limit $2::bigint
