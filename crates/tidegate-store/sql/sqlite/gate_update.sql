-- Updates a gate.
--
-- ?1 key   ?2 id   ?3 at   ?4 due   ?5 state   ?6 event
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update gate
   set id    = ?2,
       at    = ?3,
       due   = ?4,
       state = ?5,
       event = ?6
 where key = ?1
