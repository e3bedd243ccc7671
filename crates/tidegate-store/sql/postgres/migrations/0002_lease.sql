-- Leases by name, for programs of their own: the public contract, not the leases of runs.
--
-- A row is there while somebody holds the name, or let it run out. Fences come from one counter
-- for all names, drawn under the name's latch, so that no row has to stay for the next fence to
-- be greater. It counts one by one and keeps nothing ahead: numbers kept by a connection would
-- be given out late, after greater ones.
create sequence lease_fence increment by 1 start with 1 cache 1;

create table lease (
  name   text collate "C" not null primary key,
  holder text collate "C" not null,
  fence  bigint not null,
  until  bigint not null
) with (fillfactor = 80);
