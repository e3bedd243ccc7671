-- Reads all API keys, in key order: for tests, `doctor` and backups.
--
-- Locks nothing. Index: the primary key.
select id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at
  from api_key
 order by id
