-- Updates a stream's snapshot.
--
-- ?1 stream   ?2 kind   ?3 version   ?4 body
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update snapshot
   set version = ?3,
       body    = ?4
 where stream = ?1
   and kind = ?2
