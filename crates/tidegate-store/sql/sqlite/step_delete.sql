-- Deletes a remembered step.
--
-- ?1 run   ?2 id
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from step
 where run = ?1
   and id = ?2
