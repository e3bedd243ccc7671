-- Reads API keys by key.
--
-- $1 id (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select api_key.id, api_key.ws, api_key.name, api_key.hash, api_key.read_only, api_key.made_at,
       api_key.expires_at, api_key.used_at, api_key.revoked_at
  from api_key
  join unnest($1::text[])
       as wanted(id)
    on api_key.id = wanted.id
