-- Reads all waits, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, name, path, value, run, step
  from wait
 order by ws, name, path, value, run, step
