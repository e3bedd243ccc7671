-- Schedules can be paused, and keep what became of their last occurrence.
alter table schedule add column outcome text collate "C";
alter table schedule add column paused_at bigint;
