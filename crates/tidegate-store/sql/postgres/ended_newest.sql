-- Reads the newest runs of lanes that have ended in one of some states.
--
-- $1 lanes   $2 states   $3 below   $4 how many
-- Locks nothing. Index: ended_lane, once for each lane and state, so that no lane's runs are
-- sorted.
select ended.seq, ended.salt, ended.ws, ended.app, ended.workflow, ended.version, ended.state,
       ended.queued_at, ended.ended_at, ended.event_seq, ended.body, ended.lane
  from ended
 where ended.seq = any(array(
            select candidate.seq
              from (select distinct unnest($1::bigint[])) as lanes(lane)
             cross join unnest($2::text[]) as states(state)
             cross join lateral (
                    select ended.seq
                      from ended
                     where ended.lane = lanes.lane
                       and ended.state = states.state
                       and ended.seq < $3::bigint
                     order by ended.lane desc, ended.state desc, ended.seq desc
                     limit $4::bigint
                   ) as candidate
             order by candidate.seq desc
             limit $4::bigint
       ))
 order by ended.seq desc
 limit $4::bigint
