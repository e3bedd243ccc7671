-- Reads chores by due time, from a given time on, earliest first.
--
-- $1 earliest due time (µs)   $2 limit
-- Locks nothing: a hint. Index: chore_due.
select seq, salt, ws, topic, due, work
  from chore
 where due is not null and due >= $1::bigint
 order by due, seq
 limit $2::bigint
