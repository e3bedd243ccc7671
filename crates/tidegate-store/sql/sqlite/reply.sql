-- name: reply_after
-- Reads stored replies after a sequence number, oldest first.
--
-- ?1 after this number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: reply_seq.
select {columns}
  from reply
 where seq > ?1
 order by seq, ws, id
 limit ?2
