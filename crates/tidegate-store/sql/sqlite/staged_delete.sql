-- Deletes an operation that a run has staged.
--
-- ?1 run   ?2 n
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from staged
 where run = ?1
   and n = ?2
