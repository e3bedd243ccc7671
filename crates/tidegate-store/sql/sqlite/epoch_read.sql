-- Reads a workspace's epoch by its key.
--
-- ?1 ws
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, n
  from epoch
 where ws = ?1
