-- Reads an event or other input by its key.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select seq, salt, ws, kind, name, at, ts, data
  from event
 where seq = ?1
