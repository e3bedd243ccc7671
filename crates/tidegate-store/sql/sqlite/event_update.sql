-- Updates an event or other input.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 kind   ?5 name   ?6 at   ?7 ts   ?8 data
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update event
   set salt = ?2,
       ws   = ?3,
       kind = ?4,
       name = ?5,
       at   = ?6,
       ts   = ?7,
       data = ?8
 where seq = ?1
