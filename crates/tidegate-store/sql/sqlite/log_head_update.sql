-- Updates a workspace's last global position.
--
-- ?1 ws   ?2 pos
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update log_head
   set pos = ?2
 where ws = ?1
