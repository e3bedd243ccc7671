-- Updates a wait for an event.
--
-- ?1 ws   ?2 name   ?3 path   ?4 value   ?5 run   ?6 step
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
-- The key is all there is: this only checks that the row is there.
update wait
   set step = ?6
 where ws = ?1
   and name = ?2
   and path = ?3
   and value = ?4
   and run = ?5
   and step = ?6
