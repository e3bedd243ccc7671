-- Schedules can be paused, and keep what became of their last occurrence.
alter table schedule add column outcome text;
alter table schedule add column paused_at integer;
