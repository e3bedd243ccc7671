-- Gives places of reactions new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by sub_lock or sub_work_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update sub
       set work     = new.work,
           at       = new.at,
           want     = new.want,
           owner    = new.owner,
           fence    = new.fence,
           until    = new.until,
           due      = new.due,
           since    = new.since,
           failures = new.failures,
           claims   = new.claims,
           blocked  = new.blocked,
           log      = new.log,
           error    = new.error
      from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[],
                  $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[],
                  $11::bigint[], $12::bigint[], $13::bigint[], $14::text[],
                  $15::bigint[], $16::text[])
           as new(ws, reaction, stream, work, at, want, owner, fence, until, due, since,
                  failures, claims, blocked, log, error)
     where sub.ctid = (
            select found.ctid
              from sub as found
             where (found.ws, found.reaction, found.stream)
                   between (new.ws, new.reaction, new.stream)
                       and (new.ws, new.reaction, new.stream)
             order by found.ws, found.reaction, found.stream
             limit 1
           )
    returning 1
)
select expect_rows('sub', count(*), cardinality($1))
  from changed
