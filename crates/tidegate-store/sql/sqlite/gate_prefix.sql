-- Reads the gates whose key begins with a prefix.
--
-- ?1 prefix   ?2 first key after all keys with the prefix   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select key, id, at, due, state, event
  from gate
 where key >= ?1
   and key < ?2
 order by key
 limit ?3
