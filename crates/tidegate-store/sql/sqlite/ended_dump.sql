-- Reads all runs that have ended, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 order by seq
