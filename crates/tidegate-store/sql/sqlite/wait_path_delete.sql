-- Deletes a path that waits are filed under.
--
-- ?1 ws   ?2 name   ?3 path
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from wait_path
 where ws = ?1
   and name = ?2
   and path = ?3
