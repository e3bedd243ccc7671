-- Events have further members, such as their user, as a JSON object.
alter table event add column attributes text;
-- Runs are found by the values of their first listener (`cancelOn`, `waitsFor`).
alter table run add column listens integer;
create index run_listens on run (listens) where listens is not null;
