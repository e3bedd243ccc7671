-- Deletes a run that has ended.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from ended
 where seq = ?1
