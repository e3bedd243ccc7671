-- Locks engines by key and reads them as they are once the locks are there.
--
-- $1 id (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select id, beat, dead, serves
  from engine
 where id = any($1::text[])
 order by id
   for no key update
