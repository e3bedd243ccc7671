-- Reads all stream heads, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, name, id, head, closed
  from stream
 order by ws, name
