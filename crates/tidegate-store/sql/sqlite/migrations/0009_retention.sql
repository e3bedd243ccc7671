-- What keeps the past: which event a run was started with and which older run it relies on, and
-- which event an open window holds. Rows from before say nothing until they change.
--
-- A run is made in the transaction of its event, within one block of 4096 numbers; the few others
-- (flushed folds, new goes at ended runs) are found by run_far, so that the many pay nothing.
alter table run add column event_seq integer;
alter table run add column past integer;
create index run_far on run (event_seq) where abs((event_seq >> 12) - (seq >> 12)) > 1;
create index run_past on run (past) where past is not null;

alter table gate add column event integer;
create index gate_event on gate (event) where event is not null;

create index ended_far on ended (event_seq) where abs((event_seq >> 12) - (seq >> 12)) > 1;
create index item_event on item (event_seq);
