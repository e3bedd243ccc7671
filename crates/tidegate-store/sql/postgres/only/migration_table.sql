-- Creates the list of the migrations that this schema has had.
create table if not exists migration (
  version  bigint      not null primary key,
  name     text        not null,
  checksum text        not null,
  at       timestamptz not null default clock_timestamp()
)
