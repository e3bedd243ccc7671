-- Reads gates by key.
--
-- $1 key (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select key, id, at, due, state, event
  from gate
 where key = any($1::bytea[])
