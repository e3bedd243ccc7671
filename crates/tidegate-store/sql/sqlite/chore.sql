-- name: chore_due
-- Reads chores that are due at or after a time, earliest first.
--
-- ?1 earliest due time (µs)   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: chore_due (due, seq) where due is not null.
select {columns}
  from chore
 where due is not null and due >= ?1
 order by due, seq
 limit ?2

-- name: chore_of_topic
-- Reads the chores that wake the runs waiting for an event name, oldest first.
--
-- ?1 ws   ?2 topic   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: chore_topic (ws, topic, seq) where topic is not null.
select {columns}
  from chore
 where ws = ?1
   and topic = ?2
 order by seq
 limit ?3

-- name: chore_newest
-- Reads the chores of a topic with a number below the given one, newest first.
--
-- ?1 ws   ?2 topic   ?3 below this number   ?4 limit
-- Locks nothing: SQLite has one writer.
-- Index: chore_topic (ws, topic, seq) where topic is not null.
select {columns}
  from chore
 where ws = ?1
   and topic = ?2
   and seq < ?3
 order by seq desc
 limit ?4
