-- Reads an engine by its key.
--
-- ?1 id
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select id, beat, dead, serves, lease_ms
  from engine
 where id = ?1
