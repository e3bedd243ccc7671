-- Reads the receipts of an event.
--
-- ?1 event   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: receipt_event (event, seq).
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 where event = ?1
 order by seq
 limit ?2
