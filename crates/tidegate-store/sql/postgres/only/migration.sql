-- name: schema_name
-- Stores the schema's name in a setting that schema_create reads, until the transaction ends.
--
-- $1 the schema's name
select set_config('tidegate.schema', $1::text, true)

-- name: schema_create
-- Creates the schema whose name schema_name has stored, unless it exists.
--
-- The name is passed by a setting because `create schema` takes no parameter, and no Rust code
-- composes SQL. An existing schema is not created again, so a database user without the right to
-- create schemas can use one.
do $$
declare
  wanted text := current_setting('tidegate.schema');
begin
  if not exists (select 1 from pg_namespace where nspname = wanted) then
    execute format('create schema %I', wanted);
  end if;
end
$$

-- name: migration_table
-- Creates the table of migrations applied to this schema.
create table if not exists migration (
  version  bigint      not null primary key,
  name     text        not null,
  checksum text        not null,
  at       timestamptz not null default clock_timestamp()
)

-- name: migration_read
-- Reads the migrations that were applied to this schema, in order.
--
-- Locks nothing: the caller holds the latch of migrations.
select version, name, checksum
  from migration
 order by version

-- name: migration_insert
-- Records a migration that was applied.
--
-- $1 version   $2 name   $3 checksum
insert into migration
       (version, name, checksum)
values ($1::bigint, $2::text, $3::text)
