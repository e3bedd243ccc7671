-- Reads all definitions of a workspace: its catalog.
--
-- ?1 ws
-- Locks nothing: SQLite has one writer.
-- Index: unique (ws, app, name, version).
select lane, ws, app, name, version, body, released, assigned, deployed
  from def
 where ws = ?1
 order by lane
