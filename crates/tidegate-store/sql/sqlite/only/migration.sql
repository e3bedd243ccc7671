-- name: migration_create
-- Creates the table of applied migrations. It is not a migration itself, because it must exist
-- before the first one.
--
-- No parameters.
create table if not exists migration (
  version  integer not null primary key,
  name     text    not null,
  checksum text    not null,
  at       integer not null
) strict

-- name: migration_dump
-- Reads the migrations that were applied, in order.
--
-- No parameters.
select version, name, checksum
  from migration
 order by version

-- name: migration_insert
-- Records a migration that was applied.
--
-- ?1 version   ?2 name   ?3 checksum   ?4 at (µs)
insert into migration (version, name, checksum, at)
values (?1, ?2, ?3, ?4)
