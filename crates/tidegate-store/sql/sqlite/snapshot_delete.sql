-- Deletes a stream's snapshot.
--
-- ?1 stream   ?2 kind
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from snapshot
 where stream = ?1
   and kind = ?2
