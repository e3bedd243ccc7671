-- Reads the subscriptions of a workspace, after a given one.
--
-- ?1 ws   ?2 reaction   ?3 stream   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures, claims,
       blocked, log, error
  from sub
 where ws = ?1
   and (reaction, stream) > (?2, ?3)
 order by reaction, stream
 limit ?4
