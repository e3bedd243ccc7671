-- Updates a stream's head.
--
-- ?1 ws   ?2 name   ?3 id   ?4 head   ?5 closed
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update stream
   set id     = ?3,
       head   = ?4,
       closed = ?5
 where ws = ?1
   and name = ?2
