-- name: gate_due
-- Reads gates that are due at or after a time, earliest first.
--
-- ?1 earliest due time (µs)   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: gate_due (due, key) where due is not null.
select {columns}
  from gate
 where due is not null and due >= ?1
 order by due, key
 limit ?2

-- name: gate_of_run
-- Reads the open window or buffer that will start a run.
--
-- ?1 run   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Index: gate_window (id) where event is not null.
select {columns}
  from gate
 where id = ?1
   and event is not null
 order by key
 limit ?2

-- name: gate_prefix
-- Reads the gates whose key begins with a prefix.
--
-- ?1 prefix   ?2 first key after all keys with the prefix   ?3 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from gate
 where key >= ?1
   and key < ?2
 order by key
 limit ?3
