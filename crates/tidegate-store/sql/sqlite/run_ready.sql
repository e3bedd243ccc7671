-- Reads the first ready runs of one lane. The caller merges lanes by rank.
--
-- ?1 lane   ?2 how many
-- Locks nothing: SQLite has one writer.
-- Index: run_ready (ready, order_at, order_seq, seq) where ready is not null.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where ready = ?1
 order by order_at, order_seq, seq
 limit ?2
