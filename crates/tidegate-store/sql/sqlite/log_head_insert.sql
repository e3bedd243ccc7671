-- Inserts a workspace's last global position.
--
-- ?1 ws   ?2 pos
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into log_head (ws, pos)
values (?1, ?2)
