-- Reads an event of a batch by its key.
--
-- ?1 run   ?2 n
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select run, n, event_seq, event_salt
  from item
 where run = ?1
   and n = ?2
