-- Reads epochs by key.
--
-- $1 ws (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select ws, n
  from epoch
 where ws = any($1::text[])
