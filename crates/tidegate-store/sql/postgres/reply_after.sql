-- Reads kept answers after a number, the oldest first.
--
-- $1 after   $2 how many
-- Locks nothing: a hint.
-- Index: reply_seq.
select ws, id, seq, at, hash, answer, response
  from reply
 where seq > $1::bigint
 order by seq, ws, id
 limit $2::bigint
