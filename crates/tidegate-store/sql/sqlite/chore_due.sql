-- Reads chores by due time, from a given time on, earliest first.
--
-- ?1 earliest due time (µs)   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: chore_due (due, seq) where due is not null.
select seq, salt, ws, topic, due, work
  from chore
 where due is not null and due >= ?1
 order by due, seq
 limit ?2
