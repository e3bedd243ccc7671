-- Updates a run that has not ended.
--
-- ?1 seq   ?2 salt   ?3 ws   ?4 lane   ?5 ready   ?6 line   ?7 tier   ?8 order_at   ?9 order_seq
-- ?10 due   ?11 owner   ?12 fence   ?13 body   ?14 event_seq   ?15 past   ?16 parked
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update run
   set salt      = ?2,
       ws        = ?3,
       lane      = ?4,
       ready     = ?5,
       line      = ?6,
       tier      = ?7,
       order_at  = ?8,
       order_seq = ?9,
       due       = ?10,
       owner     = ?11,
       fence     = ?12,
       body      = ?13,
       event_seq = ?14,
       past      = ?15,
       parked    = ?16
 where seq = ?1
