-- Reads a remembered step by its key.
--
-- ?1 run   ?2 id
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select run, id, kind, fence, at, ok, out, seq
  from step
 where run = ?1
   and id = ?2
