-- Reads all items of batches, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select run, n, event_seq, event_salt
  from item
 order by run, n
