-- Reads all places of reactions, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures,
       claims, blocked, log, error
  from sub
 order by ws, reaction, stream
