-- Deletes a workspace's last global position.
--
-- ?1 ws
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was deleted.
delete from log_head
 where ws = ?1
