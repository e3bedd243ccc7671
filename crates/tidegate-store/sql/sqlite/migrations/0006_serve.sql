-- What an engine serves, as a JSON list of lanes: a run whose lane no live engine serves is stranded.
--
-- The default is for rows that are there, and for beats of a program from before.
alter table engine add column serves text not null default '[]';
