-- Reads the engines that are not marked dead, and the dead that still own runs.
--
-- $1 how many
-- Locks nothing: a hint. Indexes: the primary key; run_owner, once for each that is dead.
-- Whoever marks an engine dead may fall before its runs are reaped: others find it here.
select id, beat, dead, serves, lease_ms
  from engine
 where dead = 0
    or (select run.seq from run where run.owner = engine.id limit 1) is not null
 order by id
 limit $1::bigint
