-- The next turn and lane that have ready runs.
--
-- ?1 workspace   ?2, ?3 after this turn and lane   ?4, ?5 up to this turn and lane
-- Index: run_ready (ws, ready, lane, order_at, order_seq, seq) where ready is not null.
select ready, lane
  from run
 where ws = ?1 and ready is not null and (ready, lane) > (?2, ?3) and (ready, lane) <= (?4, ?5)
 order by ready, lane
 limit 1
