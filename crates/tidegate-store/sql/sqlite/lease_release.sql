-- Releases a lease, and returns whether it had not expired.
--
-- ?1 name   ?2 holder   ?3 fence   ?4 now
-- Locks nothing: SQLite has one writer. Index: the primary key.
-- No row: it was released before, or acquired again.
delete from lease
 where name = ?1
   and holder = ?2
   and fence = ?3
returning until > ?4 as good
