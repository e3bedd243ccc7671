-- Reads the chores that have a due time, the earliest first.
--
-- ?1 how many
-- Locks nothing: SQLite has one writer.
-- Index: chore_due (due, seq) where due is not null.
select seq, salt, ws, topic, due, work
  from chore
 where due is not null
 order by due, seq
 limit ?1
