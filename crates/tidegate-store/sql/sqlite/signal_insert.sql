-- Inserts a signal in an inbox.
--
-- ?1 run   ?2 name   ?3 seq   ?4 data
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into signal (run, name, seq, data)
values (?1, ?2, ?3, ?4)
