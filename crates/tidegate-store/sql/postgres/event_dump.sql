-- Reads all events, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select seq, salt, ws, kind, name, at, ts, data
  from event
 order by seq
