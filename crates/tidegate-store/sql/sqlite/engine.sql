-- name: engine_beat
-- Renews an engine's lease. The first heartbeat inserts the engine's row.
--
-- ?1 engine   ?2 length of the lease in milliseconds, set by the first heartbeat
-- Runs in a transaction of its own.
-- Changes no row if the engine was declared dead: the caller checks the count.
insert into engine (id, beat, dead, lease_ms)
values (?1, 1, 0, ?2)
    on conflict (id) do update
   set beat = beat + 1
 where dead = 0

-- name: engine_buriable
-- Reads the engines that are marked dead and own no runs.
--
-- ?1 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key, as there are few engines; run_owner, once for each dead engine.
select {columns}
  from engine
 where dead = 1
   and not exists (select 1 from run where run.owner = engine.id)
 order by id
 limit ?1

-- name: engine_void
-- Marks all engines dead. Runs when the file is opened: a file has one owner, so all engines of
-- earlier owners have stopped.
--
-- No parameters. PostgreSQL has no equivalent: there, engines start and stop independently.
update engine
   set dead = 1
 where dead = 0

-- name: engine_watched
-- Reads the engines that are not marked dead, and the dead ones that still own runs.
--
-- ?1 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key, as there are few engines; run_owner, once for each dead engine.
-- Dead engines with runs are included because opening the file marks all earlier engines dead, and
-- their runs must be reaped.
select {columns}
  from engine
 where dead = 0
    or exists (select 1 from run where run.owner = engine.id)
 order by id
 limit ?1
