-- Reads a reaction's place in a stream by its key.
--
-- ?1 ws   ?2 reaction   ?3 stream
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures, claims,
       blocked, log, error
  from sub
 where ws = ?1
   and reaction = ?2
   and stream = ?3
