-- Reads a gate by its key.
--
-- ?1 key
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select key, id, at, due, state, event
  from gate
 where key = ?1
