-- Inserts a wait for an event.
--
-- ?1 ws   ?2 name   ?3 path   ?4 value   ?5 run   ?6 step
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into wait (ws, name, path, value, run, step)
values (?1, ?2, ?3, ?4, ?5, ?6)
