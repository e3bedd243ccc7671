-- Reads a chore by its key.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select seq, salt, ws, topic, due, work
  from chore
 where seq = ?1
