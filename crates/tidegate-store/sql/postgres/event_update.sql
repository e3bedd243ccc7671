-- Gives events new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update event
       set salt = new.salt,
           ws   = new.ws,
           kind = new.kind,
           name = new.name,
           at   = new.at,
           ts   = new.ts,
           data = new.data
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
                  $6::bigint[], $7::bigint[], $8::text[])
           as new(seq, salt, ws, kind, name, at, ts, data)
     where event.ctid = (
            select found.ctid
              from event as found
             where found.seq between new.seq and new.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('event', count(*), cardinality($1))
  from changed
