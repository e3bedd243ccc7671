-- Reads API keys, by id.
--
-- $1 limit
-- Locks nothing: a hint.
-- Index: the primary key.
select id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at
  from api_key
 order by id
 limit $1::bigint
