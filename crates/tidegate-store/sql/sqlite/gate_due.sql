-- Reads the gates that have a due time from a moment on, the earliest first.
--
-- ?1 from this due time on (µs)   ?2 how many
-- Locks nothing: SQLite has one writer.
-- Index: gate_due (due, key) where due is not null.
select key, id, at, due, state, event
  from gate
 where due is not null and due >= ?1
 order by due, key
 limit ?2
