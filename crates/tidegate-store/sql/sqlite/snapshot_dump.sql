-- Reads all streams' snapshots, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select stream, kind, version, body
  from snapshot
 order by stream, kind
