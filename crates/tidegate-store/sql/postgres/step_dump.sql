-- Reads all steps, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select run, id, kind, fence, at, ok, out, seq
  from step
 order by run, id
