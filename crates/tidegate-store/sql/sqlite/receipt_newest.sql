-- Reads the newest receipts of a workspace.
--
-- ?1 ws   ?2 below this receipt   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: receipt_newest (ws, seq).
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 where ws = ?1
   and seq < ?2
 order by seq desc
 limit ?3
