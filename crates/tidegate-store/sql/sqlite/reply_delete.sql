-- Deletes a kept answer.
--
-- ?1 ws   ?2 id
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from reply
 where ws = ?1
   and id = ?2
