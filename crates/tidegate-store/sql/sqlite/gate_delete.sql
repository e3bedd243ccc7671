-- Deletes a gate.
--
-- ?1 key
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from gate
 where key = ?1
