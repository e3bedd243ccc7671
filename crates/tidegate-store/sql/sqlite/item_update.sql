-- Updates an event of a batch.
--
-- ?1 run   ?2 n   ?3 event_seq   ?4 event_salt
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update item
   set event_seq  = ?3,
       event_salt = ?4
 where run = ?1
   and n = ?2
