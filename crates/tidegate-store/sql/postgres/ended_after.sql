-- Reads ended runs after a number, oldest first.
--
-- $1 after   $2 limit
-- Locks nothing. Index: the primary key.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 where seq > $1::bigint
 order by seq
 limit $2::bigint
