-- Reads all definitions of a workspace, for its catalog.
--
-- $1 ws
-- Locks nothing: the caller holds the workspace's latch. Index: the unique key (ws, …).
select lane, ws, app, name, version, body, released
  from def
 where ws = $1::text
 order by lane
