-- Reads all paths of waits, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, name, path
  from wait_path
 order by ws, name, path
