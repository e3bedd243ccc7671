-- Reads all chunks of output, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select run, step, attempt, n, seq, data
  from chunk
 order by run, step, attempt, n
