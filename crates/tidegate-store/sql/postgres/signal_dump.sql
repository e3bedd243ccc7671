-- Reads all signals, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select run, name, seq, data
  from signal
 order by run, name, seq
