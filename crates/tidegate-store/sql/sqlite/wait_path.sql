-- name: wait_path_of_name
-- Reads the paths at which waits for an event name expect a value.
--
-- ?1 ws   ?2 the event's name   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from wait_path
 where ws = ?1
   and name = ?2
 order by path
 limit ?3
