-- Updates a receipt.
--
-- ?1 seq   ?2 ws   ?3 app   ?4 workflow   ?5 key   ?6 event   ?7 at   ?8 verdict
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update receipt
   set ws       = ?2,
       app      = ?3,
       workflow = ?4,
       key      = ?5,
       event    = ?6,
       at       = ?7,
       verdict  = ?8
 where seq = ?1
