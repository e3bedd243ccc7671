-- Reads the events of a batch.
--
-- ?1 run   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select run, n, event_seq, event_salt
  from item
 where run = ?1
 order by n
 limit ?2
