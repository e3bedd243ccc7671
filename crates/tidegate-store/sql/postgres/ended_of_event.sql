-- Reads the ended runs that were started with events.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Indexes: the primary key in the blocks around the event's, where nearly all of
-- them are; ended_far; the primary key again, once for each run (README).
-- First column: index of the scan, from 1.
select wanted.n, found.seq, found.salt, found.ws, found.app, found.workflow, found.version,
       found.state, found.queued_at, found.ended_at, found.event_seq, found.body, found.lane
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
        select ended.seq, ended.salt, ended.ws, ended.app, ended.workflow, ended.version,
               ended.state, ended.queued_at, ended.ended_at, ended.event_seq, ended.body,
               ended.lane
          from ended
         where ended.seq between candidate.seq and candidate.seq
         order by ended.seq
         limit 1
       ) as found
 order by wanted.n, found.seq
