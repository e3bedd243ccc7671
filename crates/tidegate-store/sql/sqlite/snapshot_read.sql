-- Reads a stream's snapshot by its key.
--
-- ?1 stream   ?2 kind
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select stream, kind, version, body
  from snapshot
 where stream = ?1
   and kind = ?2
