-- Deletes a chore.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from chore
 where seq = ?1
