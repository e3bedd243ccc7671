-- What is looked at: events and receipts of a workspace, newest first, and how many runs of a
-- definition are where. Runs that are ready, in line or driven are told by columns that there were;
-- those that wait or are paused get one, so that only they pay for its index.
create index event_newest on event (ws, seq) where kind = 'event';
create index receipt_newest on receipt (ws, seq);

alter table run add column parked text;
update run
   set parked = json_extract(body, '$.phase')
 where json_extract(body, '$.phase') in ('waiting', 'paused');
create index run_parked on run (lane, parked) where parked is not null;

-- With the lane, so that those who are driven are counted in the index alone.
drop index run_owner;
create index run_owner on run (owner, seq, lane) where owner is not null;
