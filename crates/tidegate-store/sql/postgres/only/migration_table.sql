-- Creates the table of migrations applied to this schema.
create table if not exists migration (
  version  bigint      not null primary key,
  name     text        not null,
  checksum text        not null,
  at       timestamptz not null default clock_timestamp()
)
