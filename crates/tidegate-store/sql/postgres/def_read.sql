-- Reads definitions by key.
--
-- $1 lane (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select lane, ws, app, name, version, body, released
  from def
 where lane = any($1::bigint[])
