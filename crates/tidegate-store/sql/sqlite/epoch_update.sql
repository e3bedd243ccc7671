-- Updates a workspace's epoch.
--
-- ?1 ws   ?2 n
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update epoch
   set n = ?2
 where ws = ?1
