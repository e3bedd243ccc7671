-- Reads all receipts, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 order by seq
