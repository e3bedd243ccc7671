-- Reads all streams' snapshots, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select stream, kind, version, body
  from snapshot
 order by stream, kind
