-- Reads all chores, in order of their keys.
--
-- Locks nothing. Index: the primary key.
select seq, salt, ws, topic, due, work
  from chore
 order by seq
