-- name: log_feed
-- Reads a workspace's stream events after a global position.
--
-- ?1 ws   ?2 after this position   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: unique (ws, pos).
select {columns}
  from log
 where ws = ?1
   and pos > ?2
 order by pos
 limit ?3

-- name: log_feed_back
-- Reads a workspace's stream events before a global position, newest first.
--
-- ?1 ws   ?2 before this position   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: unique (ws, pos).
select {columns}
  from log
 where ws = ?1
   and pos < ?2
 order by pos desc
 limit ?3

-- name: log_of_stream
-- Reads the events of a stream from a version on.
--
-- ?1 stream   ?2 from this version   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from log
 where stream = ?1
   and version >= ?2
 order by version
 limit ?3
