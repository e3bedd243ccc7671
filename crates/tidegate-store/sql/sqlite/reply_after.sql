-- Reads kept answers after a number, the oldest first.
--
-- ?1 after   ?2 how many
-- Locks nothing: SQLite has one writer.
-- Index: reply_seq.
select ws, id, seq, at, hash, answer, response
  from reply
 where seq > ?1
 order by seq, ws, id
 limit ?2
