-- Deletes a definition.
--
-- ?1 lane
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from def
 where lane = ?1
