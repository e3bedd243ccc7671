-- Locks API keys by key and reads them as they are once the locks are there.
--
-- $1 id (arrays of one length)
-- Locks in key order, waiting. Returns columns of the locked rows only (R15): what lives in
-- other rows is read by a later statement. An absent row locks nothing (R3).
select api_key.id, api_key.ws, api_key.name, api_key.hash, api_key.read_only, api_key.made_at,
       api_key.expires_at, api_key.used_at, api_key.revoked_at
  from api_key
  join unnest($1::text[])
       as wanted(id)
    on api_key.id = wanted.id
 order by api_key.id
   for no key update of api_key
