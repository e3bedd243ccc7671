-- Reads gates by due time, from a given time on, earliest first.
--
-- ?1 earliest due time (µs)   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: gate_due (due, key) where due is not null.
select key, id, at, due, state, event
  from gate
 where due is not null and due >= ?1
 order by due, key
 limit ?2
