-- Reads the newest runs of one lane that have not ended. The caller merges lanes.
--
-- ?1 lane   ?2 below this run   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: run_lane (lane, seq).
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where lane = ?1
   and seq < ?2
 order by seq desc
 limit ?3
