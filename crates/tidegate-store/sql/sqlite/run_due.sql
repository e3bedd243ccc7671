-- Reads runs by due time, from a given time on, earliest first.
--
-- ?1 earliest due time (µs)   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_due (due, seq) where due is not null.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where due is not null and due >= ?1
 order by due, seq
 limit ?2
