-- Updates a definition.
--
-- ?1 lane   ?2 ws   ?3 app   ?4 name   ?5 version   ?6 body   ?7 released
-- ?8 assigned   ?9 deployed
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update def
   set ws       = ?2,
       app      = ?3,
       name     = ?4,
       version  = ?5,
       body     = ?6,
       released = ?7,
       assigned = ?8,
       deployed = ?9
 where lane = ?1
