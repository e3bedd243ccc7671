-- Finds the window or buffer that gathers for a run by the number of that run, which is the row's
-- id. Rows from before have ids of their own until they change.
create index gate_window on gate (id) where event is not null;
