-- Reads the newest runs of lanes that have not ended.
--
-- $1 lanes   $2 below   $3 how many
-- Locks nothing: a hint. Index: run_lane, once for each lane, so that no lane's runs are sorted.
select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
       run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past, run.parked
  from run
 where run.seq = any(array(
            select candidate.seq
              from (select distinct unnest($1::bigint[])) as lanes(lane)
             cross join lateral (
                    select run.seq
                      from run
                     where run.lane = lanes.lane
                       and run.seq < $2::bigint
                     order by run.seq desc
                     limit $3::bigint
                   ) as candidate
             order by candidate.seq desc
             limit $3::bigint
       ))
 order by run.seq desc
 limit $3::bigint
