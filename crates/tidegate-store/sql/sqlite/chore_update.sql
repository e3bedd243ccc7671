-- Updates a chore.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 topic   ?5 due   ?6 work
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update chore
   set salt = ?2,
       ws = ?3,
       topic = ?4,
       due = ?5,
       work = ?6
 where seq = ?1
