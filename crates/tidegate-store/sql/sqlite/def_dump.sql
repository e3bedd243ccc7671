-- Reads all definitions, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select lane, ws, app, name, version, body, released, assigned, deployed
  from def
 order by lane
