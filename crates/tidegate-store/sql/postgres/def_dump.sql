-- Reads all definitions, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select lane, ws, app, name, version, body, released
  from def
 order by lane
