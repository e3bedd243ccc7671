-- Reads all receipts, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 order by seq
