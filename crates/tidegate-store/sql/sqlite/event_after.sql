-- Reads events after a number, oldest first.
--
-- ?1 after   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select seq, salt, ws, kind, name, at, ts, data
  from event
 where seq > ?1
 order by seq
 limit ?2
