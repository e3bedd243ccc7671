-- name: meta_read
-- Reads a number that the store keeps under a name, such as a counter.
--
-- ?1 name
-- Index: the primary key.
select value
  from meta
 where name = ?1

-- name: meta_write
-- Writes a number that the store keeps under a name: inserts or updates its row.
--
-- ?1 name   ?2 value
insert into meta (name, value)
values (?1, ?2)
    on conflict (name) do update
   set value = excluded.value

-- name: fence_next
-- Draws the fence of a new lease from one counter for all names.
--
-- No parameters. Runs inside the transaction that grants the lease. PostgreSQL uses a sequence
-- instead.
insert into meta (name, value)
values ('lease_fence', 1)
    on conflict (name) do update
   set value = value + 1
returning value
