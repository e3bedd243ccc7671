-- Reads the chores that wake the waiters of an event's name, oldest first.
--
-- ?1 ws   ?2 topic   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: chore_topic (ws, topic, seq) where topic is not null.
select seq, salt, ws, topic, due, work
  from chore
 where ws = ?1
   and topic = ?2
 order by seq
 limit ?3
