-- Inserts a receipt.
--
-- ?1 seq   ?2 ws   ?3 app   ?4 workflow   ?5 key   ?6 event   ?7 at   ?8 verdict
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into receipt (seq, ws, app, workflow, key, event, at, verdict)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
