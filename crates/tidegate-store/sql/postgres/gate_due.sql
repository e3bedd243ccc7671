-- Reads the gates that are due, the longest due first.
--
-- $1 how many
-- Locks nothing: a hint. Index: gate_due.
select key, id, at, due, state
  from gate
 where due <= (select (extract(epoch from clock_timestamp()) * 1000000)::bigint)
 order by due, key
 limit $1::bigint
