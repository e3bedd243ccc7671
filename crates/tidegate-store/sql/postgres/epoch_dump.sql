-- Reads all epochs, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, n
  from epoch
 order by ws
