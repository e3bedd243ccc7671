-- Reads the engines that are not marked dead, and the dead ones that still own runs.
--
-- $1 limit
-- Locks nothing: a hint. Indexes: the primary key; run_owner, once for each dead engine.
-- An engine that marks another dead may crash before the runs are reaped: other engines find the
-- dead one here.
select id, beat, dead, serves, lease_ms
  from engine
 where dead = 0
    or (select run.seq from run where run.owner = engine.id limit 1) is not null
 order by id
 limit $1::bigint
