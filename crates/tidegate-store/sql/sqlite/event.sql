-- name: event_after
-- Reads events after a sequence number, oldest first.
--
-- ?1 after this number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from event
 where seq > ?1
 order by seq
 limit ?2

-- name: event_loose
-- Reads unreferenced events with `after < seq <= until`: no run, ended run, batch or window refers
-- to them any more.
--
-- ?1 after this number   ?2 up to this number   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key of event; those of run and ended, in the blocks of numbers around the
-- event; run_far, ended_far, item_event, gate_event. A run stored before the column `event_seq`
-- existed counts as a reference to every event in these blocks.
select {columns}
  from event
 where seq > ?1
   and seq <= ?2
   and not exists (select 1
                     from run
                    where run.seq >= ((event.seq >> 12) - 1) << 12
                      and run.seq < ((event.seq >> 12) + 2) << 12
                      and coalesce(run.event_seq, event.seq) = event.seq)
   and not exists (select 1
                     from run
                    where run.event_seq = event.seq
                      and abs((run.event_seq >> 12) - (run.seq >> 12)) > 1)
   and not exists (select 1
                     from ended
                    where ended.seq >= ((event.seq >> 12) - 1) << 12
                      and ended.seq < ((event.seq >> 12) + 2) << 12
                      and ended.event_seq = event.seq)
   and not exists (select 1
                     from ended
                    where ended.event_seq = event.seq
                      and abs((ended.event_seq >> 12) - (ended.seq >> 12)) > 1)
   and not exists (select 1 from item where item.event_seq = event.seq)
   and not exists (select 1 from gate where gate.event = event.seq)
 order by seq
 limit ?3

-- name: event_newest
-- Reads the newest posted events of a workspace.
--
-- ?1 ws   ?2 below this event   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: event_newest (ws, seq) where kind = 'event'.
select {columns}
  from event
 where ws = ?1
   and kind = 'event'
   and seq < ?2
 order by seq desc
 limit ?3
