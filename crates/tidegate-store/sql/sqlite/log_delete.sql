-- Deletes an event of a stream.
--
-- ?1 stream   ?2 version
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from log
 where stream = ?1
   and version = ?2
