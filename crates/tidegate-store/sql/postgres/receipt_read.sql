-- Reads receipts by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 where seq = any($1::bigint[])
