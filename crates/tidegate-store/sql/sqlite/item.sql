-- name: item_of_event
-- Reads the positions of an event in batches.
--
-- ?1 event   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: item_event (event_seq).
select {columns}
  from item
 where event_seq = ?1
 order by run, n
 limit ?2

-- name: item_of_run
-- Reads the events of a batch. A batch is named by its run.
--
-- ?1 run   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from item
 where run = ?1
 order by n
 limit ?2
