-- Reads the chores that have a due time, the earliest first.
--
-- $1 how many
-- Locks nothing: a hint. Index: chore_due.
select seq, salt, ws, topic, due, work
  from chore
 where due is not null
 order by due, seq
 limit $1::bigint
