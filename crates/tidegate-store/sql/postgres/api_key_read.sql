-- Reads API keys by key.
--
-- $1 id (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.id, found.ws, found.name, found.hash, found.read_only, found.made_at,
       found.expires_at, found.used_at, found.revoked_at
  from unnest($1::text[])
       as wanted(id)
 cross join lateral (
        select api_key.id, api_key.ws, api_key.name, api_key.hash, api_key.read_only,
               api_key.made_at, api_key.expires_at, api_key.used_at, api_key.revoked_at
          from api_key
         where api_key.id between wanted.id and wanted.id
         order by api_key.id
         limit 1
       ) as found
