-- Gives steps new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update step
       set kind  = new.kind,
           fence = new.fence,
           at    = new.at,
           ok    = new.ok,
           out   = new.out,
           seq   = new.seq
      from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[],
                  $6::bigint[], $7::text[], $8::bigint[])
           as new(run, id, kind, fence, at, ok, out, seq)
     where step.ctid = (
            select found.ctid
              from step as found
             where (found.run, found.id) between (new.run, new.id) and (new.run, new.id)
             order by found.run, found.id
             limit 1
           )
    returning 1
)
select expect_rows('step', count(*), cardinality($1))
  from changed
