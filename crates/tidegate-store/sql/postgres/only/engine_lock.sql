-- Locks engines by key and reads them as they are once the locks are there.
--
-- $1 id (arrays of one length)
-- Locks in the order of the arrays, which is that of the keys, waiting. Returns columns of the
-- locked rows only (spec R15): what lives in other rows is read by a later statement. An absent row
-- locks nothing (spec R3). Index: the primary key, once for each key (README).
select found.id, found.beat, found.dead, found.serves, found.lease_ms
  from unnest($1::text[])
       as wanted(id)
 cross join lateral (
        select engine.id, engine.beat, engine.dead, engine.serves, engine.lease_ms
          from engine
         where engine.id between wanted.id and wanted.id
         order by engine.id
         limit 1
           for no key update
       ) as found
