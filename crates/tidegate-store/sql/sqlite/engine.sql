-- name: engine_beat
-- Renews an engine's lease; the first heartbeat creates it.
--
-- ?1 engine   ?2 length of the lease in milliseconds, set by the first heartbeat
-- Runs by itself, apart from all other transactions.
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
-- Declares all engines dead: the file has one owner, and opening it voids older leases.
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
-- Opening the file marks all earlier engines dead: those with runs to reap are found here.
select {columns}
  from engine
 where dead = 0
    or exists (select 1 from run where run.owner = engine.id)
 order by id
 limit ?1
