-- Renews an engine's lease; the first heartbeat creates it.
--
-- ?1 engine   ?2 length of the lease in milliseconds, kept from the first heartbeat
-- Runs by itself, apart from all other transactions.
-- Changes no row if the engine was declared dead: the caller checks the count.
insert into engine (id, beat, dead, lease_ms)
values (?1, 1, 0, ?2)
    on conflict (id) do update
   set beat = beat + 1
 where dead = 0
