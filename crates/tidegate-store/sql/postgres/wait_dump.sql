-- Reads all waits, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, name, path, value, run, step
  from wait
 order by ws, name, path, value, run, step
