-- Reads a run that has not ended by its key.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where seq = ?1
