-- Reads the runs that an engine owns.
--
-- ?1 engine   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_owner (owner, seq, lane) where owner is not null.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where owner = ?1
 order by seq
 limit ?2
