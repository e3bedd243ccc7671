-- Inserts a gate.
--
-- ?1 key   ?2 id   ?3 at   ?4 due   ?5 state   ?6 event
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into gate (key, id, at, due, state, event)
values (?1, ?2, ?3, ?4, ?5, ?6)
