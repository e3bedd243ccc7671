-- Reads the events of a stream from a version on.
--
-- ?1 stream   ?2 from this version   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 where stream = ?1
   and version >= ?2
 order by version
 limit ?3
