-- Deletes a chunk of output.
--
-- ?1 run   ?2 step   ?3 attempt   ?4 n
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from chunk
 where run = ?1
   and step = ?2
   and attempt = ?3
   and n = ?4
