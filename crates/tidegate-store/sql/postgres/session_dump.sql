-- Reads all sessions' documents, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, app, flow, id, version, body
  from session
 order by ws, app, flow, id
