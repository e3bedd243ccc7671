-- Reads a path that waits are filed under by its key.
--
-- ?1 ws   ?2 name   ?3 path
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select ws, name, path
  from wait_path
 where ws = ?1
   and name = ?2
   and path = ?3
