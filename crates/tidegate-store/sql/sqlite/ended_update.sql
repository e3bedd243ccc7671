-- Updates a run that has ended.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 app   ?5 workflow   ?6 version   ?7 state   ?8 queued_at   ?9
-- ended_at   ?10 event_seq   ?11 body   ?12 lane
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update ended
   set salt      = ?2,
       ws        = ?3,
       app       = ?4,
       workflow  = ?5,
       version   = ?6,
       state     = ?7,
       queued_at = ?8,
       ended_at  = ?9,
       event_seq = ?10,
       body      = ?11,
       lane      = ?12
 where seq = ?1
