-- Reads all streams' heads, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, name, id, head, closed
  from stream
 order by ws, name
