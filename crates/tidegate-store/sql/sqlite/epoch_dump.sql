-- Reads all workspaces' epochs, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, n
  from epoch
 order by ws
