-- name: snapshot_of_stream
-- Reads all snapshots of a stream.
--
-- ?1 stream   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from snapshot
 where stream = ?1
 order by kind
 limit ?2
