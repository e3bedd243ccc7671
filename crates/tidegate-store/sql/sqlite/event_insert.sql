-- Inserts an event or other input.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 kind   ?5 name   ?6 at   ?7 ts   ?8 data
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into event (seq, salt, ws, kind, name, at, ts, data)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
