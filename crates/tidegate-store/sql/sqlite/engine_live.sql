-- Reads the engines that are not marked dead.
--
-- ?1 how many
-- Locks nothing: SQLite has one writer.
-- Index: the primary key; there are few engines.
select id, beat, dead
  from engine
 where dead = 0
 order by id
 limit ?1
