-- Reads receipts after a number, oldest first.
--
-- $1 after   $2 limit
-- Locks nothing: a hint.
-- Index: the primary key.
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 where seq > $1::bigint
 order by seq
 limit $2::bigint
