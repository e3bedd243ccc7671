-- Inserts an event of a stream.
--
-- ?1 stream   ?2 version   ?3 ws   ?4 pos   ?5 seq   ?6 salt   ?7 name   ?8 at   ?9 data   ?10
-- meta
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into log (stream, version, ws, pos, seq, salt, name, at, data, meta)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
