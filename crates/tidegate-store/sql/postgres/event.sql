-- name: event_after
-- Reads events after a sequence number, oldest first.
--
-- $1 after this number   $2 limit
-- Locks nothing. Index: the primary key.
select {columns}
  from event
 where seq > $1::bigint
 order by seq
 limit $2::bigint

-- name: event_loose
-- Reads unreferenced events with `after < seq <= until`: no run, ended run, batch or window refers
-- to them any more.
--
-- $1 after this number   $2 up to this number   $3 limit
-- Locks nothing: its rows are hints.
-- Indexes: the primary key of event; those of run and ended, in the blocks of numbers around the
-- event; run_far, ended_far, item_event, gate_event. A run stored before the column `event_seq`
-- existed counts as a reference to every event in these blocks.
select {columns}
  from event
 where seq > $1::bigint
   and seq <= $2::bigint
   and (select run.seq
          from run
         where run.seq >= ((event.seq >> 12) - 1) << 12
           and run.seq < ((event.seq >> 12) + 2) << 12
           and coalesce(run.event_seq, event.seq) = event.seq
         order by run.seq
         limit 1) is null
   and (select run.seq
          from run
         where run.event_seq = event.seq
           and abs((run.event_seq >> 12) - (run.seq >> 12)) > 1
         limit 1) is null
   and (select ended.seq
          from ended
         where ended.seq >= ((event.seq >> 12) - 1) << 12
           and ended.seq < ((event.seq >> 12) + 2) << 12
           and ended.event_seq = event.seq
         order by ended.seq
         limit 1) is null
   and (select ended.seq
          from ended
         where ended.event_seq = event.seq
           and abs((ended.event_seq >> 12) - (ended.seq >> 12)) > 1
         limit 1) is null
   and (select item.run from item where item.event_seq = event.seq limit 1) is null
   and (select gate.event
          from gate
         where gate.event between event.seq and event.seq
         order by gate.event
         limit 1) is null
 order by seq
 limit $3::bigint

-- name: event_newest
-- Reads the newest posted events of workspaces.
--
-- $1 ws   $2 below this number   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: event_newest.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, below, most, n)
 cross join lateral (
        select {event.columns}
          from event
         where (event.ws, event.seq) < (wanted.ws, wanted.below)
           and event.ws >= wanted.ws
           and event.kind = 'event'
         order by event.ws desc, event.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.seq desc
