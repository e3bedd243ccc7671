-- Reads all workspaces' last global positions, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, pos
  from log_head
 order by ws
