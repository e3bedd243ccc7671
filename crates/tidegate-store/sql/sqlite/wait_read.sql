-- Reads a wait for an event by its key.
--
-- ?1 ws   ?2 name   ?3 path   ?4 value   ?5 run   ?6 step
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, name, path, value, run, step
  from wait
 where ws = ?1
   and name = ?2
   and path = ?3
   and value = ?4
   and run = ?5
   and step = ?6
