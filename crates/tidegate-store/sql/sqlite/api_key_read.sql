-- Reads an API key by its key.
--
-- ?1 id
-- Locks nothing: SQLite has one writer.
-- Index: the primary key.
select id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at
  from api_key
 where id = ?1
