-- Reads a run that has ended by its key.
--
-- ?1 seq
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 where seq = ?1
