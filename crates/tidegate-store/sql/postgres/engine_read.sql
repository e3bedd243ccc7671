-- Reads engines by key.
--
-- $1 id (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select id, beat, dead, serves
  from engine
 where id = any($1::text[])
