-- Gives runs new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by run_lock or run_ready_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update run
       set salt      = new.salt,
           ws        = new.ws,
           lane      = new.lane,
           ready     = new.ready,
           line      = new.line,
           tier      = new.tier,
           order_at  = new.order_at,
           order_seq = new.order_seq,
           due       = new.due,
           owner     = new.owner,
           fence     = new.fence,
           body      = new.body,
           event_seq = new.event_seq,
           past      = new.past,
           parked    = new.parked
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
                  $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
                  $11::text[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[],
                  $16::text[])
           as new(seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner,
                  fence, body, event_seq, past, parked)
     where run.ctid = (
            select found.ctid
              from run as found
             where found.seq between new.seq and new.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('run', count(*), cardinality($1))
  from changed
