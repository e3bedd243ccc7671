-- name: run_queue
-- Reads the first runs in a gate's queue.
--
-- ?1 the gate's key   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_line (line, tier, order_at, order_seq, seq) where line is not null.
select {columns}
  from run
 where line = ?1
 order by tier, order_at, order_seq, seq
 limit ?2

-- name: run_queue_tier
-- Reads the first runs of one tier in a gate's queue.
--
-- ?1 the gate's key   ?2 tier   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_line.
select {columns}
  from run
 where line = (select id from gate where key = ?1)
   and tier = ?2
 order by order_at, order_seq, seq
 limit ?3

-- name: run_queue_end
-- Reads the last runs in a gate's queue, the last one first.
--
-- ?1 the gate's key   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_line, backwards.
select {columns}
  from run
 where line = (select id from gate where key = ?1)
 order by tier desc, order_at desc, order_seq desc, seq desc
 limit ?2

-- name: run_queue_count
-- Counts the runs in a gate's queue, up to a limit.
--
-- ?1 the gate's key   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_line, index-only.
select count(*)
  from (select 1
          from run
         where line = (select id from gate where key = ?1)
         limit ?2)

-- name: run_ready
-- Reads the first ready runs of one lane (a version of a workflow), in rank order. The caller
-- merges the lanes (`Claim::take`).
--
-- ?1 workspace   ?2 workflow   ?3 lane   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_ready (ws, ready, lane, order_at, order_seq, seq) where ready is not null.
select {columns}
  from run
 where ws = ?1 and ready = ?2 and lane = ?3
 order by order_at, order_seq, seq
 limit ?4

-- name: run_ready_next
-- Reads the first ready run of the first lane in a range that has a ready run.
--
-- ?1 workspace   ?2, ?3 from this workflow and lane   ?4, ?5 up to this workflow and lane
-- The range includes its first lane: for a comparison of pairs with `>`, SQLite would start at the
-- pair itself and read the whole backlog of that lane.
-- Locks nothing: SQLite has one writer.
-- Index: run_ready (ws, ready, lane, order_at, order_seq, seq) where ready is not null.
select {columns}
  from run
 where ws = ?1 and ready is not null and (ready, lane) >= (?2, ?3) and (ready, lane) <= (?4, ?5)
 order by ready, lane, order_at, order_seq, seq
 limit 1

-- name: run_ready_count
-- Counts the ready runs of a definition, up to a limit.
--
-- ?1 workspace   ?2 workflow   ?3 lane   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_ready (ws, ready, lane, ..) where ready is not null, index-only.
select count(*)
  from (select 1
          from run
         where ws = ?1
           and ready = ?2
           and lane = ?3
         limit ?4)

-- name: run_due
-- Reads runs that are due at or after a time, earliest first.
--
-- ?1 earliest due time (µs)   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_due (due, seq) where due is not null.
select {columns}
  from run
 where due is not null and due >= ?1
 order by due, seq
 limit ?2

-- name: run_owned
-- Reads the runs that an engine owns.
--
-- ?1 engine   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_owner (owner, seq, lane) where owner is not null.
select {columns}
  from run
 where owner = ?1
 order by seq
 limit ?2

-- name: run_lane
-- Reads the runs of a definition that have not ended, after a given run.
--
-- ?1 lane   ?2 after this run   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_lane (lane, seq).
select {columns}
  from run
 where lane = ?1
   and seq > ?2
 order by seq
 limit ?3

-- name: run_listening
-- Reads the runs whose first listener has a number, from a given run on.
--
-- ?1 number   ?2 from this run on   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_listens (listens) where listens is not null.
select {columns}
  from run
 where listens = ?1
   and seq >= ?2
 order by seq
 limit ?3

-- name: run_newest
-- Reads the newest runs of one lane that have not ended. The caller merges lanes.
--
-- ?1 lane   ?2 below this run   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_lane (lane, seq).
select {columns}
  from run
 where lane = ?1
   and seq < ?2
 order by seq desc
 limit ?3

-- name: run_of_event
-- Reads the runs that an event started.
--
-- ?1 event   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key, in the blocks of numbers around the event, where nearly all of its runs
-- are; run_far for the others.
select {columns}
  from run
 where seq in (select seq
                 from run
                where seq >= ((?1 >> 12) - 1) << 12
                  and seq < ((?1 >> 12) + 2) << 12
                  and event_seq = ?1
               union
               select seq
                 from run
                where event_seq = ?1
                  and abs((event_seq >> 12) - (seq >> 12)) > 1)
 order by seq
 limit ?2

-- name: run_count
-- Counts the runs of a definition that have not ended, up to a limit.
--
-- ?1 lane   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_lane (lane, seq), index-only.
select count(*)
  from (select 1
          from run
         where lane = ?1
         limit ?2)

-- name: run_driven_count
-- Counts the runs of a definition that are owned by engines, up to a limit.
--
-- ?1 lane   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_owner, index-only, all of it: it has as many entries as runs that engines drive. The
-- unary plus keeps SQLite from using run_lane, which has the waiting runs, too.
select count(*)
  from (select 1
          from run
         where owner is not null
           and +lane = ?1
         limit ?2)

-- name: run_parked_count
-- Counts the runs of a definition that wait or are paused, up to a limit.
--
-- ?1 lane   ?2 `waiting` or `paused`   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_parked (lane, parked) where parked is not null, index-only.
select count(*)
  from (select 1
          from run
         where lane = ?1
           and parked = ?2
         limit ?3)
