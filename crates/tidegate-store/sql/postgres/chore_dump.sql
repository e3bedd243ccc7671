-- Reads all chores, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select seq, salt, ws, topic, due, work
  from chore
 order by seq
