-- name: stream_of_number
-- Reads a stream by its number.
--
-- ?1 number   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: stream_id.
select {columns}
  from stream
 where id = ?1
 order by ws, name
 limit ?2

-- name: stream_of_workspace
-- Reads the streams of a workspace in order of name, after a given name.
--
-- ?1 ws   ?2 after this name   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from stream
 where ws = ?1
   and name > ?2
 order by name
 limit ?3
