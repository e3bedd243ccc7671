-- Locks gates by key and reads them as they are once the locks are there.
--
-- $1 key (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select key, id, at, due, state, event
  from gate
 where key = any($1::bytea[])
 order by key
   for no key update
