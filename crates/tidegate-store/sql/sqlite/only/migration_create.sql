-- Creates the table of applied migrations. Not a migration itself: migrations are looked up in it.
--
-- No parameters.
create table if not exists migration (
  version  integer not null primary key,
  name     text    not null,
  checksum text    not null,
  at       integer not null
) strict
