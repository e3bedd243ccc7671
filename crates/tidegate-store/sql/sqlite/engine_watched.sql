-- Reads the engines that are not marked dead, and the dead ones that still own runs.
--
-- ?1 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key, as there are few engines; run_owner, once for each dead engine.
-- Opening the file marks all earlier engines dead: those with runs to reap are found here.
select id, beat, dead, serves, lease_ms
  from engine
 where dead = 0
    or exists (select 1 from run where run.owner = engine.id)
 order by id
 limit ?1
