-- Reads all places of reactions in a workspace.
--
-- ?1 ws   ?2 how many
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures, claims,
       blocked, log, error
  from sub
 where ws = ?1
 order by reaction, stream
 limit ?2
