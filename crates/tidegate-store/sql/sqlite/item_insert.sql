-- Inserts an event of a batch.
--
-- ?1 run   ?2 n   ?3 event_seq   ?4 event_salt
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into item (run, n, event_seq, event_salt)
values (?1, ?2, ?3, ?4)
