-- Reads the gates whose key begins with some bytes.
--
-- ?1 the bytes   ?2 the first key after all of those   ?3 how many
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select key, id, at, due, state, event
  from gate
 where key >= ?1
   and key < ?2
 order by key
 limit ?3
