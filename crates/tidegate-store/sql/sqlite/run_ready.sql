-- Reads the first ready runs of one lane. The caller merges lanes in the order of their turns.
--
-- ?1 workspace   ?2 turn   ?3 lane   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_ready (ws, ready, lane, order_at, order_seq, seq) where ready is not null.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where ws = ?1 and ready = ?2 and lane = ?3
 order by order_at, order_seq, seq
 limit ?4
