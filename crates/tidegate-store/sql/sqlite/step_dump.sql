-- Reads all remembered steps, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select run, id, kind, fence, at, ok, out, seq
  from step
 order by run, id
