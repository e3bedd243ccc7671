-- Reads a kept answer by its key.
--
-- ?1 ws   ?2 id
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, id, seq, at, hash, answer, response
  from reply
 where ws = ?1
   and id = ?2
