-- Reads events by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select seq, salt, ws, kind, name, at, ts, data
  from event
 where seq = any($1::bigint[])
