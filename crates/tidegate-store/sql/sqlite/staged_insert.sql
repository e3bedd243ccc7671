-- Inserts an operation that a run has staged.
--
-- ?1 run   ?2 n   ?3 app   ?4 flow   ?5 id   ?6 op   ?7 version   ?8 seen
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into staged (run, n, app, flow, id, op, version, seen)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
