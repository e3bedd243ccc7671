-- Locks API keys by key and reads them as they are once the locks are there.
--
-- $1 id (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
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
           for no key update
       ) as found
