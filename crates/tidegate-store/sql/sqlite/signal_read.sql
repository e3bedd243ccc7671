-- Reads a signal in an inbox by its key.
--
-- ?1 run   ?2 name   ?3 seq
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select run, name, seq, data
  from signal
 where run = ?1
   and name = ?2
   and seq = ?3
