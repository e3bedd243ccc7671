-- Updates an operation that a run has staged.
--
-- ?1 run   ?2 n   ?3 app   ?4 flow   ?5 id   ?6 op   ?7 version   ?8 seen
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update staged
   set app     = ?3,
       flow    = ?4,
       id      = ?5,
       op      = ?6,
       version = ?7,
       seen    = ?8
 where run = ?1
   and n = ?2
