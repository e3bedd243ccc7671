-- Reads the engines that are not marked dead, and the dead that still own runs.
--
-- ?1 how many
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key, as there are few engines; run_owner, once for each that is dead.
-- Opening the file marks all engines of before dead: whose runs there are to reap is found here.
select id, beat, dead, serves, lease_ms
  from engine
 where dead = 0
    or exists (select 1 from run where run.owner = engine.id)
 order by id
 limit ?1
