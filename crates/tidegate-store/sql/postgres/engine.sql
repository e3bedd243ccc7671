-- name: engine_beat
-- Renews an engine's lease, unless the engine was declared dead.
--
-- $1 id
-- Locks the engine's row. Index: the primary key. Changes no row if the engine has none or is
-- marked dead.
update engine
   set beat = beat + 1
 where id = $1::text
   and dead = 0
returning beat

-- name: engine_buriable
-- Reads the engines that are marked dead and own no runs.
--
-- $1 limit
-- Locks nothing: its rows are hints.
-- Indexes: the primary key, as there are few engines; run_owner, once for each dead engine.
select {columns}
  from engine
 where dead = 1
   and (select run.seq from run where run.owner = engine.id limit 1) is null
 order by id
 limit $1::bigint

-- name: engine_watched
-- Reads the engines that are not marked dead, and the dead ones that still own runs.
--
-- $1 limit
-- Locks nothing: its rows are hints.
-- Indexes: the primary key; run_owner, once for each dead engine.
-- Dead engines with runs are included because the engine that marked them dead may crash before it
-- has reaped their runs.
select {columns}
  from engine
 where dead = 0
    or (select run.seq from run where run.owner = engine.id limit 1) is not null
 order by id
 limit $1::bigint
