-- Reads all sessions' documents, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, app, flow, id, version, body
  from session
 order by ws, app, flow, id
