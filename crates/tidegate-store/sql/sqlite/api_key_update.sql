-- Updates an API key.
--
-- ?1 id   ?2 ws   ?3 name   ?4 hash   ?5 read_only
-- ?6 made_at   ?7 expires_at   ?8 used_at   ?9 revoked_at
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- The caller checks that one row was changed.
update api_key
   set ws         = ?2,
       name       = ?3,
       hash       = ?4,
       read_only  = ?5,
       made_at    = ?6,
       expires_at = ?7,
       used_at    = ?8,
       revoked_at = ?9
 where id = ?1
