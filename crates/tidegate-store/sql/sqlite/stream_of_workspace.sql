-- Reads a workspace's streams by name, after a given one.
--
-- ?1 ws   ?2 after this name   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, name, id, head, closed
  from stream
 where ws = ?1
   and name > ?2
 order by name
 limit ?3
