-- Gives stream events new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update log
       set ws   = new.ws,
           pos  = new.pos,
           seq  = new.seq,
           salt = new.salt,
           name = new.name,
           at   = new.at,
           data = new.data,
           meta = new.meta
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
                  $6::bigint[], $7::text[], $8::bigint[], $9::text[], $10::text[])
           as new(stream, version, ws, pos, seq, salt, name, at, data, meta)
     where log.ctid = (
            select found.ctid
              from log as found
             where (found.stream, found.version)
                   between (new.stream, new.version)
                       and (new.stream, new.version)
             order by found.stream, found.version
             limit 1
           )
    returning 1
)
select expect_rows('log', count(*), cardinality($1))
  from changed
