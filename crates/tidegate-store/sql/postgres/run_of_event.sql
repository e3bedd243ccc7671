-- Reads the runs that were started with events.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Indexes: the primary key in the blocks around the event's, where nearly all of
-- them are; run_far; the primary key again, once for each run (README).
-- First column: index of the scan, from 1.
select wanted.n, found.seq, found.salt, found.ws, found.lane, found.ready, found.line, found.tier,
       found.order_at, found.order_seq, found.due, found.owner, found.fence, found.body,
       found.event_seq, found.past, found.parked
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(event, most, n)
 cross join lateral (
        select place.seq
          from (select near.seq
                  from run as near
                 where near.seq >= ((wanted.event >> 12) - 1) << 12
                   and near.seq < ((wanted.event >> 12) + 2) << 12
                   and near.event_seq = wanted.event
                 order by near.seq) as place
         union
        select far.seq
          from run as far
         where far.event_seq = wanted.event
           and abs((far.event_seq >> 12) - (far.seq >> 12)) > 1
         order by seq
         limit wanted.most
       ) as candidate
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
               run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past,
               run.parked
          from run
         where run.seq between candidate.seq and candidate.seq
         order by run.seq
         limit 1
       ) as found
 order by wanted.n, found.seq
