-- Reads an event of a stream by its key.
--
-- ?1 stream   ?2 version
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 where stream = ?1
   and version = ?2
