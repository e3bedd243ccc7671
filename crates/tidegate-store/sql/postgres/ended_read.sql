-- Reads ended runs by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 where seq = any($1::bigint[])
