-- name: wait_of_value
-- Reads the waits for an event name that expect a value at a path, after a given wait.
--
-- ?1 ws   ?2 the event's name   ?3 path   ?4 value   ?5 after this run   ?6 and this step of it
-- ?7 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from wait
 where ws = ?1
   and name = ?2
   and path = ?3
   and value = ?4
   and (run, step) > (?5, ?6)
 order by run, step
 limit ?7
