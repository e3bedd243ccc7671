-- Updates a kept answer.
--
-- ?1 ws   ?2 id   ?3 seq   ?4 at   ?5 hash   ?6 answer   ?7 response
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update reply
   set seq      = ?3,
       at       = ?4,
       hash     = ?5,
       answer   = ?6,
       response = ?7
 where ws = ?1
   and id = ?2
