-- Reads runs by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked
  from run
 where seq = any($1::bigint[])
