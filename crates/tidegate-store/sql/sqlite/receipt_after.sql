-- Reads receipts after a number, oldest first.
--
-- ?1 after   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 where seq > ?1
 order by seq
 limit ?2
