-- name: step_of_run
-- Reads the steps of a run.
--
-- ?1 run   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from step
 where run = ?1
 order by id
 limit ?2
