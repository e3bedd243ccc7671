-- name: api_key_all
-- Reads all API keys, ordered by id.
--
-- ?1 limit
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select {columns}
  from api_key
 order by id
 limit ?1
