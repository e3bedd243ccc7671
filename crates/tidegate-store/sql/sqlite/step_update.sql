-- Updates a remembered step.
--
-- ?1 run   ?2 id   ?3 kind   ?4 fence   ?5 at   ?6 ok   ?7 out   ?8 seq
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update step
   set kind  = ?3,
       fence = ?4,
       at    = ?5,
       ok    = ?6,
       out   = ?7,
       seq   = ?8
 where run = ?1
   and id = ?2
