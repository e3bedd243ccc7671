-- Reads the waits for an event that are filed under a value.
--
-- ?1 ws   ?2 the event's name   ?3 path   ?4 value   ?5 how many
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, name, path, value, run, step
  from wait
 where ws = ?1
   and name = ?2
   and path = ?3
   and value = ?4
 order by run, step
 limit ?5
