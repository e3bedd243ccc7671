-- Reads the newest runs of lanes that have ended in one of the given states.
--
-- $1 lanes   $2 states   $3 below   $4 limit
-- Locks nothing. Indexes: ended_lane, once for each lane and state, so that no lane's runs are
-- sorted; the primary key, once for each run (README).
select found.seq, found.salt, found.ws, found.app, found.workflow, found.version, found.state,
       found.queued_at, found.ended_at, found.event_seq, found.body, found.lane
  from (select place.seq
          from (select distinct unnest($1::bigint[])) as lanes(lane)
         cross join (select distinct unnest($2::text[])) as states(state)
         cross join lateral (
                select ended.seq
                  from ended
                 where (ended.lane, ended.state, ended.seq)
                       < (lanes.lane, states.state, $3::bigint)
                   and (ended.lane, ended.state) >= (lanes.lane, states.state)
                 order by ended.lane desc, ended.state desc, ended.seq desc
                 limit $4::bigint
               ) as place
         order by place.seq desc
         limit $4::bigint) as candidate
 cross join lateral (
        select ended.seq, ended.salt, ended.ws, ended.app, ended.workflow, ended.version,
               ended.state, ended.queued_at, ended.ended_at, ended.event_seq, ended.body,
               ended.lane
          from ended
         where ended.seq between candidate.seq and candidate.seq
         order by ended.seq
         limit 1
       ) as found
 order by found.seq desc
