-- Reads the gates that are due, the longest due first.
--
-- $1 how many
-- Locks nothing: a hint. Index: gate_due.
select key, id, at, due, state
  from gate
 where due <= (select clock())
 order by due, key
 limit $1::bigint
