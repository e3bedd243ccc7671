-- Inserts an API key.
--
-- ?1 id   ?2 ws   ?3 name   ?4 hash   ?5 read_only
-- ?6 made_at   ?7 expires_at   ?8 used_at   ?9 revoked_at
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Fails where the key is taken: the caller thought that it was not.
insert into api_key (id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
