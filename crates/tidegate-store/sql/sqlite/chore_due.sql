-- Reads the chores that have a due time from a moment on, the earliest first.
--
-- ?1 from this due time on (µs)   ?2 how many
-- Locks nothing: SQLite has one writer.
-- Index: chore_due (due, seq) where due is not null.
select seq, salt, ws, topic, due, work
  from chore
 where due is not null and due >= ?1
 order by due, seq
 limit ?2
