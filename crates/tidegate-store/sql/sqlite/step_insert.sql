-- Inserts a remembered step.
--
-- ?1 run   ?2 id   ?3 kind   ?4 fence   ?5 at   ?6 ok   ?7 out   ?8 seq
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into step (run, id, kind, fence, at, ok, out, seq)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
