-- name: ended_after
-- Reads ended runs after a sequence number, oldest first.
--
-- $1 after this number   $2 limit
-- Locks nothing. Index: the primary key.
select {columns}
  from ended
 where seq > $1::bigint
 order by seq
 limit $2::bigint

-- name: ended_loose
-- Reads unreferenced ended runs with `after < seq <= until`: no run refers to them any more.
--
-- $1 after this number   $2 up to this number   $3 limit
-- Locks nothing: its rows are hints.
-- Indexes: the primary key; run_past.
select {columns}
  from ended
 where seq > $1::bigint
   and seq <= $2::bigint
   and (select run.seq from run where run.past = ended.seq limit 1) is null
   and (select run.seq
          from run
         where run.seq between ended.seq and ended.seq
         order by run.seq
         limit 1) is null
 order by seq
 limit $3::bigint

-- name: ended_newest
-- Reads the newest ended runs of lanes, only those in one of the given states.
--
-- $1 lanes   $2 states   $3 below this number   $4 limit
-- Locks nothing. Indexes: ended_lane, once for each lane and state, so that the runs of a lane are
-- not sorted; the primary key, once for each run (README).
select {found.columns}
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
        select {ended.columns}
          from ended
         where ended.seq between candidate.seq and candidate.seq
         order by ended.seq
         limit 1
       ) as found
 order by found.seq desc

-- name: ended_of_event
-- Reads the ended runs that events started.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Indexes: the primary key, in the blocks of numbers around the event, where nearly
-- all of its runs are; ended_far for the others; the primary key again, once for each run (README).
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(event, most, n)
 cross join lateral (
        select place.seq
          from (select near.seq
                  from ended as near
                 where near.seq >= ((wanted.event >> 12) - 1) << 12
                   and near.seq < ((wanted.event >> 12) + 2) << 12
                   and near.event_seq = wanted.event
                 order by near.seq) as place
         union
        select far.seq
          from ended as far
         where far.event_seq = wanted.event
           and abs((far.event_seq >> 12) - (far.seq >> 12)) > 1
         order by seq
         limit wanted.most
       ) as candidate
 cross join lateral (
        select {ended.columns}
          from ended
         where ended.seq between candidate.seq and candidate.seq
         order by ended.seq
         limit 1
       ) as found
 order by wanted.n, found.seq
