-- Reads the runs that are due, the longest due first.
--
-- ?1 now (µs)   ?2 how many
-- Locks nothing: SQLite has one writer.
-- Index: run_due (due, seq) where due is not null.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body
  from run
 where due <= ?1
 order by due, seq
 limit ?2
