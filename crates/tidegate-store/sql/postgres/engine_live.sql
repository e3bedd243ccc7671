-- Reads the engines that are not marked dead.
--
-- $1 how many
-- Locks nothing: a hint. Index: the primary key.
select id, beat, dead
  from engine
 where dead = 0
 order by id
 limit $1::bigint
