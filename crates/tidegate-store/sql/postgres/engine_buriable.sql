-- Reads the engines that are marked dead and own no runs.
--
-- $1 limit
-- Locks nothing: a hint.
-- Indexes: the primary key, as there are few engines; run_owner, once for each dead engine.
select id, beat, dead, serves, lease_ms
  from engine
 where dead = 1
   and (select run.seq from run where run.owner = engine.id limit 1) is null
 order by id
 limit $1::bigint
