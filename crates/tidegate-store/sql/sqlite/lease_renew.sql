-- Extends a lease, unless it was lost.
--
-- ?1 name   ?2 holder   ?3 fence   ?4 until   ?5 now
-- Locks nothing: SQLite has one writer. Index: the primary key.
-- No row: it expired, was released, or was acquired again.
update lease
   set until = ?4
 where name = ?1
   and holder = ?2
   and fence = ?3
   and until > ?5
returning until
