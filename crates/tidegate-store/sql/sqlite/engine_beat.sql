-- Renews an engine's lease; the first beat creates it.
--
-- ?1 engine   ?2 the length of the lease in milliseconds, kept from the first beat
-- A statement of its own, outside all other transactions.
-- Changes no row where the engine was declared dead: the caller looks at the count.
insert into engine (id, beat, dead, lease_ms)
values (?1, 1, 0, ?2)
    on conflict (id) do update
   set beat = beat + 1
 where dead = 0
