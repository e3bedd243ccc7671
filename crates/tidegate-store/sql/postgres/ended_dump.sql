-- Reads all ended runs, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 order by seq
