-- Updates an engine.
--
-- ?1 id   ?2 beat   ?3 dead   ?4 serves   ?5 lease_ms
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update engine
   set beat     = ?2,
       dead     = ?3,
       serves   = ?4,
       lease_ms = ?5
 where id = ?1
