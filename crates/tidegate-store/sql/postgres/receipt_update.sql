-- Gives receipts new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update receipt
       set ws       = new.ws,
           app      = new.app,
           workflow = new.workflow,
           key      = new.key,
           event    = new.event,
           at       = new.at,
           verdict  = new.verdict
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[],
                  $6::bigint[], $7::bigint[], $8::text[])
           as new(seq, ws, app, workflow, key, event, at, verdict)
     where receipt.ctid = (
            select found.ctid
              from receipt as found
             where found.seq between new.seq and new.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('receipt', count(*), cardinality($1))
  from changed
