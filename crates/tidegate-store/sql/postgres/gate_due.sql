-- Reads the gates that have a due time, the earliest first.
--
-- $1 how many
-- Locks nothing: a hint. Index: gate_due.
select key, id, at, due, state, event
  from gate
 where due is not null
 order by due, key
 limit $1::bigint
