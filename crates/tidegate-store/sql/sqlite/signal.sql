-- name: signal_inbox
-- Reads the signals of a name in a run's inbox, oldest first.
--
-- ?1 run   ?2 name   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from signal
 where run = ?1
   and name = ?2
 order by seq
 limit ?3

-- name: signal_of_run
-- Reads all signals in a run's inbox.
--
-- ?1 run   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from signal
 where run = ?1
 order by name, seq
 limit ?2
