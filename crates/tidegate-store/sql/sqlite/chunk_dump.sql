-- Reads all chunks of output, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select run, step, attempt, n, seq, data
  from chunk
 order by run, step, attempt, n
