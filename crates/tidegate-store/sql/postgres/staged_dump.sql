-- Reads all operations that runs have staged, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select run, n, app, flow, id, op, version, seen
  from staged
 order by run, n
