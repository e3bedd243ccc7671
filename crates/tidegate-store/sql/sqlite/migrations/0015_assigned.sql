-- Versions record whether code without a number registered them, and whether their last
-- release came with a registration.
alter table def add column assigned integer;
alter table def add column deployed integer not null default 0;
