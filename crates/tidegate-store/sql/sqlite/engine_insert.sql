-- Inserts an engine.
--
-- ?1 id   ?2 beat   ?3 dead   ?4 serves   ?5 lease_ms
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into engine (id, beat, dead, serves, lease_ms)
values (?1, ?2, ?3, ?4, ?5)
