-- Updates a path that waits are filed under.
--
-- ?1 ws   ?2 name   ?3 path
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
-- The key is all there is: this only checks that the row is there.
update wait_path
   set path = ?3
 where ws = ?1
   and name = ?2
   and path = ?3
