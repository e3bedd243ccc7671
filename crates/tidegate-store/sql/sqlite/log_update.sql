-- Updates an event of a stream.
--
-- ?1 stream   ?2 version   ?3 ws   ?4 pos   ?5 seq   ?6 salt   ?7 name   ?8 at   ?9 data   ?10
-- meta
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update log
   set ws   = ?3,
       pos  = ?4,
       seq  = ?5,
       salt = ?6,
       name = ?7,
       at   = ?8,
       data = ?9,
       meta = ?10
 where stream = ?1
   and version = ?2
