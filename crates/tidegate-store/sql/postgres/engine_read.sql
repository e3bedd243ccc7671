-- Reads engines by key.
--
-- $1 id (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.id, found.beat, found.dead, found.serves, found.lease_ms
  from unnest($1::text[])
       as wanted(id)
 cross join lateral (
        select engine.id, engine.beat, engine.dead, engine.serves, engine.lease_ms
          from engine
         where engine.id between wanted.id and wanted.id
         order by engine.id
         limit 1
       ) as found
