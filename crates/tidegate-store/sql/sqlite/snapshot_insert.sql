-- Inserts a stream's snapshot.
--
-- ?1 stream   ?2 kind   ?3 version   ?4 body
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into snapshot (stream, kind, version, body)
values (?1, ?2, ?3, ?4)
