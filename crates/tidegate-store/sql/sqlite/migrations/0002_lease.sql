-- Leases by name, for programs of their own: the public contract, not the leases of runs.
--
-- A row is there while somebody holds the name, or let it run out. Fences come from one counter
-- for all names (`meta`), so that no row has to stay for the next fence to be greater.
create table lease (
  name   text    not null primary key,
  holder text    not null,
  fence  integer not null,
  until  integer not null
) strict, without rowid;
