-- name: reply_after
-- Reads stored replies after a number, oldest first.
--
-- ?1 after   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: reply_seq.
select {columns}
  from reply
 where seq > ?1
 order by seq, ws, id
 limit ?2
