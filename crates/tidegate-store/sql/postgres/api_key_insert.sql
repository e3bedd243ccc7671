-- Inserts API keys.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into api_key
       (id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)
select new.id, new.ws, new.name, new.hash, new.read_only, new.made_at, new.expires_at,
       new.used_at, new.revoked_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
              $7::bigint[], $8::bigint[], $9::bigint[])
       as new(id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)
