-- Reads all definitions of a workspace, for its catalog.
--
-- $1 ws
-- Locks nothing: the caller holds the workspace's latch. Index: the unique key (ws, …).
select found.lane, found.ws, found.app, found.name, found.version, found.body, found.released,
       found.assigned, found.deployed
  from (select lane, ws, app, name, version, body, released, assigned, deployed
          from def
         where ws = $1::text
        offset 0) as found
 order by found.lane
