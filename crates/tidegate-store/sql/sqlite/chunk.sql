-- name: chunk_of_run
-- Reads the chunks that a run has emitted after a position.
--
-- ?1 run   ?2 after this position   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: chunk_run.
select {columns}
  from chunk
 where run = ?1
   and seq > ?2
 order by seq
 limit ?3
