-- Reads the gates that are due, the longest due first.
--
-- ?1 now (µs)   ?2 how many
-- Locks nothing: SQLite has one writer.
-- Index: gate_due (due, key) where due is not null.
select key, id, at, due, state
  from gate
 where due <= ?1
 order by due, key
 limit ?2
