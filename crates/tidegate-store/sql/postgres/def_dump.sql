-- Reads all definitions, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select lane, ws, app, name, version, body, released, assigned, deployed
  from def
 order by lane
