-- Updates a session's document.
--
-- ?1 ws   ?2 app   ?3 flow   ?4 id   ?5 version   ?6 body
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update session
   set version = ?5,
       body    = ?6
 where ws = ?1
   and app = ?2
   and flow = ?3
   and id = ?4
