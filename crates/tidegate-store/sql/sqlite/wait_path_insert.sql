-- Inserts a path that waits are filed under.
--
-- ?1 ws   ?2 name   ?3 path
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into wait_path (ws, name, path)
values (?1, ?2, ?3)
