-- name: api_key_all
-- Reads all API keys, ordered by id.
--
-- $1 limit
-- Locks nothing: its rows are hints.
-- Index: the primary key.
select {columns}
  from api_key
 order by id
 limit $1::bigint
