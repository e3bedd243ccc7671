-- Updates a signal in an inbox.
--
-- ?1 run   ?2 name   ?3 seq   ?4 data
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update signal
   set data = ?4
 where run = ?1
   and name = ?2
   and seq = ?3
