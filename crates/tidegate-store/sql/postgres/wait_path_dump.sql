-- Reads all wait paths, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, name, path
  from wait_path
 order by ws, name, path
