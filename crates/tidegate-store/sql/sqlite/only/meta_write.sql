-- Writes one of the store's own numbers; inserts or updates it.
--
-- ?1 name   ?2 value
insert into meta (name, value)
values (?1, ?2)
    on conflict (name) do update
   set value = excluded.value
