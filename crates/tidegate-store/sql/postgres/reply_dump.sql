-- Reads all kept answers, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, id, seq, at, hash, answer, response
  from reply
 order by ws, id
