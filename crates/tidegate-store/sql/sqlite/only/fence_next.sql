-- Draws the next fence of a lease, one counter for all names.
--
-- No parameters. Runs inside the transaction that grants the lease. PostgreSQL has a sequence.
insert into meta (name, value)
values ('lease_fence', 1)
    on conflict (name) do update
   set value = value + 1
returning value
