-- Inserts a stream's head.
--
-- ?1 ws   ?2 name   ?3 id   ?4 head   ?5 closed
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into stream (ws, name, id, head, closed)
values (?1, ?2, ?3, ?4, ?5)
