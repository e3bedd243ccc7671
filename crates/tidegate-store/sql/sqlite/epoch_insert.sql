-- Inserts a workspace's epoch.
--
-- ?1 ws   ?2 n
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into epoch (ws, n)
values (?1, ?2)
