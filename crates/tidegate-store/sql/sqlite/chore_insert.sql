-- Inserts a chore.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 topic   ?5 due   ?6 work
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into chore (seq, salt, ws, topic, due, work)
values (?1, ?2, ?3, ?4, ?5, ?6)
