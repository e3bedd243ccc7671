-- Reads the stream of a number.
--
-- ?1 number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: stream_id.
select ws, name, id, head, closed
  from stream
 where id = ?1
 order by ws, name
 limit ?2
