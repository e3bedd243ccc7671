-- Reads the first ready run of the next lane that has one.
--
-- ?1 workspace   ?2, ?3 from this turn and lane   ?4, ?5 up to this turn and lane
-- Not "after a lane": for a pair comparison with `>` SQLite starts at the pair itself, and would
-- read through the backlog of that lane.
-- Locks nothing: SQLite has one writer.
-- Index: run_ready (ws, ready, lane, order_at, order_seq, seq) where ready is not null.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where ws = ?1 and ready is not null and (ready, lane) >= (?2, ?3) and (ready, lane) <= (?4, ?5)
 order by ready, lane, order_at, order_seq, seq
 limit 1
