-- Gives API keys new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by api_key_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update api_key
       set ws         = new.ws,
           name       = new.name,
           hash       = new.hash,
           read_only  = new.read_only,
           made_at    = new.made_at,
           expires_at = new.expires_at,
           used_at    = new.used_at,
           revoked_at = new.revoked_at
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                  $7::bigint[], $8::bigint[], $9::bigint[])
           as new(id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)
     where api_key.ctid = (
            select found.ctid
              from api_key as found
             where found.id between new.id and new.id
             order by found.id
             limit 1
           )
    returning 1
)
select expect_rows('api_key', count(*), cardinality($1))
  from changed
