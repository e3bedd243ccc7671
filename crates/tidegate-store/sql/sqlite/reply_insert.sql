-- Inserts a kept answer.
--
-- ?1 ws   ?2 id   ?3 seq   ?4 at   ?5 hash   ?6 answer   ?7 response
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into reply (ws, id, seq, at, hash, answer, response)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
