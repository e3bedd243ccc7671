-- Reads a receipt by its key.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 where seq = ?1
