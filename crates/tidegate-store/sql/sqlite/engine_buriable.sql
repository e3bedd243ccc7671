-- Reads the engines that are marked dead and own no runs.
--
-- ?1 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key, as there are few engines; run_owner, once for each dead engine.
select id, beat, dead, serves, lease_ms
  from engine
 where dead = 1
   and not exists (select 1 from run where run.owner = engine.id)
 order by id
 limit ?1
