-- Reads all kept answers, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select ws, id, seq, at, hash, answer, response
  from reply
 order by ws, id
