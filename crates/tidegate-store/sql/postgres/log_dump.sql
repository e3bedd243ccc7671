-- Reads all stream events, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 order by stream, version
