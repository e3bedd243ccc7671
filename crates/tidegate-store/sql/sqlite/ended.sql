-- name: ended_after
-- Reads ended runs after a sequence number, oldest first.
--
-- ?1 after this number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from ended
 where seq > ?1
 order by seq
 limit ?2

-- name: ended_loose
-- Reads unreferenced ended runs with `after < seq <= until`: no run refers to them any more.
--
-- ?1 after this number   ?2 up to this number   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key; run_past.
select {columns}
  from ended
 where seq > ?1
   and seq <= ?2
   and not exists (select 1 from run where run.past = ended.seq)
   and not exists (select 1 from run where run.seq = ended.seq)
 order by seq
 limit ?3

-- name: ended_newest
-- Reads the newest ended runs of one lane and state. The caller merges lanes and states.
--
-- ?1 lane   ?2 below this run   ?3 limit   ?4 state
-- Locks nothing: SQLite has one writer.
-- Index: ended_lane (lane, state, seq).
select {columns}
  from ended
 where lane = ?1
   and state = ?4
   and seq < ?2
 order by seq desc
 limit ?3

-- name: ended_of_event
-- Reads the ended runs that an event started.
--
-- ?1 event   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key, in the blocks of numbers around the event, where nearly all of its runs
-- are; ended_far for the others.
select {columns}
  from ended
 where seq in (select seq
                 from ended
                where seq >= ((?1 >> 12) - 1) << 12
                  and seq < ((?1 >> 12) + 2) << 12
                  and event_seq = ?1
               union
               select seq
                 from ended
                where event_seq = ?1
                  and abs((event_seq >> 12) - (seq >> 12)) > 1)
 order by seq
 limit ?2
