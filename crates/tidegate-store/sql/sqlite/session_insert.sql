-- Inserts a session's document.
--
-- ?1 ws   ?2 app   ?3 flow   ?4 id   ?5 version   ?6 body
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into session (ws, app, flow, id, version, body)
values (?1, ?2, ?3, ?4, ?5, ?6)
