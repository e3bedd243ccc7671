-- Reads all gates, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select key, id, at, due, state, event
  from gate
 order by key
