-- Reads the first runs in a gate's queue.
--
-- ?1 the gate's number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_line (line, tier, order_at, order_seq, seq) where line is not null.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where line = ?1
 order by tier, order_at, order_seq, seq
 limit ?2
