-- Gives operations that runs have staged new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update staged
       set app     = new.app,
           flow    = new.flow,
           id      = new.id,
           op      = new.op,
           version = new.version,
           seen    = new.seen
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                  $7::bigint[], $8::text[])
           as new(run, n, app, flow, id, op, version, seen)
     where staged.ctid = (
            select found.ctid
              from staged as found
             where (found.run, found.n) between (new.run, new.n) and (new.run, new.n)
             order by found.run, found.n
             limit 1
           )
    returning 1
)
select expect_rows('staged', count(*), cardinality($1))
  from changed
