-- Reads all signals in a run's inbox.
--
-- ?1 run   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select run, name, seq, data
  from signal
 where run = ?1
 order by name, seq
 limit ?2
