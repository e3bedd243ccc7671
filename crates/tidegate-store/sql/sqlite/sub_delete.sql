-- Deletes a reaction's place in a stream.
--
-- ?1 ws   ?2 reaction   ?3 stream
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from sub
 where ws = ?1
   and reaction = ?2
   and stream = ?3
