-- Reads all log heads, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, pos
  from log_head
 order by ws
