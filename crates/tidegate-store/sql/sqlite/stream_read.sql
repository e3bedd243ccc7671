-- Reads a stream's head by its key.
--
-- ?1 ws   ?2 name
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, name, id, head, closed
  from stream
 where ws = ?1
   and name = ?2
