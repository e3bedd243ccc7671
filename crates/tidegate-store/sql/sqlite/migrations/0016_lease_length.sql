-- The length of an engine's lease in milliseconds, by which others judge it.
--
-- Null in rows of engines that a program from before has started: nobody knows theirs.
alter table engine add column lease_ms integer;
