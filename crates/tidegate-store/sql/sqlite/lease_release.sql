-- Gives a lease back, and says whether it was still good.
--
-- ?1 name   ?2 holder   ?3 fence   ?4 now
-- Locks nothing: SQLite has one writer. Index: the primary key.
-- No row: it was released before, or it was acquired anew.
delete from lease
 where name = ?1
   and holder = ?2
   and fence = ?3
returning until > ?4 as good
