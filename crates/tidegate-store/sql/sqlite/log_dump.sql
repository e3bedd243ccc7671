-- Reads all events of streams, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 order by stream, version
