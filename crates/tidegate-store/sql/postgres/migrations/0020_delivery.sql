-- Events and requests that are delivered later than they are sent have the time of their delivery
-- and its end, as JSON.
alter table event add column delivery text collate "C";
