-- Reads all engines, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select id, beat, dead, serves, lease_ms
  from engine
 order by id
