-- Reads chores by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select seq, salt, ws, topic, due, work
  from chore
 where seq = any($1::bigint[])
