-- Inserts a chunk of output.
--
-- ?1 run   ?2 step   ?3 attempt   ?4 n   ?5 seq   ?6 data
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into chunk (run, step, attempt, n, seq, data)
values (?1, ?2, ?3, ?4, ?5, ?6)
