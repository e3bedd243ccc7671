-- Reads the chores that have a due time from a moment on, the earliest first.
--
-- $1 from this due time on (µs)   $2 how many
-- Locks nothing: a hint. Index: chore_due.
select seq, salt, ws, topic, due, work
  from chore
 where due is not null and due >= $1::bigint
 order by due, seq
 limit $2::bigint
