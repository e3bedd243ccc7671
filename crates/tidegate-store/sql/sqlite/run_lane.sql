-- Reads the runs of a definition that have not ended, after a given one.
--
-- ?1 lane   ?2 after this run   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_lane (lane, seq).
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where lane = ?1
   and seq > ?2
 order by seq
 limit ?3
