-- Inserts a definition.
--
-- ?1 lane   ?2 ws   ?3 app   ?4 name   ?5 version   ?6 body   ?7 released
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into def (lane, ws, app, name, version, body, released)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
