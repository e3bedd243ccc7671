-- Reads all engines, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select id, beat, dead, serves, lease_ms
  from engine
 order by id
