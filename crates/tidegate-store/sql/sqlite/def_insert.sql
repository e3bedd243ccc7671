-- Inserts a definition.
--
-- ?1 lane   ?2 ws   ?3 app   ?4 name   ?5 version   ?6 body   ?7 released
-- ?8 assigned   ?9 deployed
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into def (lane, ws, app, name, version, body, released, assigned, deployed)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
