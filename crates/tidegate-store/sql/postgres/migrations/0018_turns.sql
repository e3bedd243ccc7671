-- Ready runs are leased in turns: the workflows of a workspace in turn, in each of them by rank.
-- `ready` is the number that the versions of a workflow share, its lowest lane. Runs from before
-- have their own lane there until they change, and a turn of their own with it.
drop index run_ready;
create index run_ready on run (ws, ready, lane, order_at, order_seq, seq) where ready is not null;
