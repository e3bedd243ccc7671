-- name: def_of_workspace
-- Reads all definitions of a workspace, to build its catalog.
--
-- ?1 ws
-- Locks nothing: SQLite has one writer.
-- Index: unique (ws, app, name, version).
select {columns}
  from def
 where ws = ?1
 order by lane
