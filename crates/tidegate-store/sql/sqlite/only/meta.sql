-- name: meta_read
-- Reads one of the store's own numbers.
--
-- ?1 name
-- Index: the primary key.
select value
  from meta
 where name = ?1

-- name: meta_write
-- Writes one of the store's own numbers; inserts or updates it.
--
-- ?1 name   ?2 value
insert into meta (name, value)
values (?1, ?2)
    on conflict (name) do update
   set value = excluded.value

-- name: fence_next
-- Draws the next fence of a lease, one counter for all names.
--
-- No parameters. Runs inside the transaction that grants the lease. PostgreSQL has a sequence.
insert into meta (name, value)
values ('lease_fence', 1)
    on conflict (name) do update
   set value = value + 1
returning value
