-- Reads all gates, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select key, id, at, due, state, event
  from gate
 order by key
