-- Reads the gates that have a due time, the earliest first.
--
-- ?1 how many
-- Locks nothing: SQLite has one writer.
-- Index: gate_due (due, key) where due is not null.
select key, id, at, due, state, event
  from gate
 where due is not null
 order by due, key
 limit ?1
