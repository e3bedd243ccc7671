-- Reads events after a number, oldest first.
--
-- $1 after   $2 limit
-- Locks nothing. Index: the primary key.
select seq, salt, ws, kind, name, at, ts, data
  from event
 where seq > $1::bigint
 order by seq
 limit $2::bigint
