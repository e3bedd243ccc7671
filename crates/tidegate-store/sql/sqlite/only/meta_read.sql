-- Reads one of the store's own numbers.
--
-- ?1 name
-- Index: the primary key.
select value
  from meta
 where name = ?1
