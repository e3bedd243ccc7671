-- Deletes a stream's head.
--
-- ?1 ws   ?2 name
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from stream
 where ws = ?1
   and name = ?2
