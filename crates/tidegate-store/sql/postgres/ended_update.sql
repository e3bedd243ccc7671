-- Gives ended runs new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are written under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update ended
       set salt      = new.salt,
           ws        = new.ws,
           app       = new.app,
           workflow  = new.workflow,
           version   = new.version,
           state     = new.state,
           queued_at = new.queued_at,
           ended_at  = new.ended_at,
           event_seq = new.event_seq,
           body      = new.body,
           lane      = new.lane
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
                  $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[],
                  $11::text[], $12::bigint[])
           as new(seq, salt, ws, app, workflow, version, state, queued_at, ended_at,
                  event_seq, body, lane)
     where ended.ctid = (
            select found.ctid
              from ended as found
             where found.seq between new.seq and new.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('ended', count(*), cardinality($1))
  from changed
