-- Locks chores by key and reads them as they are once the locks are there.
--
-- $1 seq (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select seq, salt, ws, topic, due, work
  from chore
 where seq = any($1::bigint[])
 order by seq
   for no key update
