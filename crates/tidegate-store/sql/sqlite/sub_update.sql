-- Updates a reaction's place in a stream.
--
-- ?1 ws   ?2 reaction   ?3 stream   ?4 work   ?5 at   ?6 want   ?7 owner   ?8 fence   ?9 until
-- ?10 due   ?11 since   ?12 failures   ?13 claims   ?14 blocked   ?15 log   ?16 error
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update sub
   set work     = ?4,
       at       = ?5,
       want     = ?6,
       owner    = ?7,
       fence    = ?8,
       until    = ?9,
       due      = ?10,
       since    = ?11,
       failures = ?12,
       claims   = ?13,
       blocked  = ?14,
       log      = ?15,
       error    = ?16
 where ws = ?1
   and reaction = ?2
   and stream = ?3
