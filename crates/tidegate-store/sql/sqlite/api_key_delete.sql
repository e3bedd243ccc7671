-- Deletes an API key.
--
-- ?1 id
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from api_key
 where id = ?1
