-- Reads gates by due time, from a given time on, earliest first.
--
-- $1 earliest due time (µs)   $2 limit
-- Locks nothing: a hint. Index: gate_due.
select key, id, at, due, state, event
  from gate
 where due is not null and due >= $1::bigint
 order by due, key
 limit $2::bigint
