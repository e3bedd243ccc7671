-- name: def_of_workspace
-- Reads all definitions of a workspace, to build its catalog.
--
-- $1 ws
-- Locks nothing: the caller holds the workspace's latch. Index: the unique key (ws, …).
select {found.columns}
  from (select {columns}
          from def
         where ws = $1::text
        offset 0) as found
 order by found.lane
