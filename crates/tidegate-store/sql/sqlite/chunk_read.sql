-- Reads a chunk of output by its key.
--
-- ?1 run   ?2 step   ?3 attempt   ?4 n
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select run, step, attempt, n, seq, data
  from chunk
 where run = ?1
   and step = ?2
   and attempt = ?3
   and n = ?4
