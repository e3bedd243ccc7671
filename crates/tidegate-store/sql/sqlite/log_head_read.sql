-- Reads a workspace's last global position by its key.
--
-- ?1 ws
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, pos
  from log_head
 where ws = ?1
