-- Gives definitions new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are held still by the latch of the workspace.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update def
       set ws       = new.ws,
           app      = new.app,
           name     = new.name,
           version  = new.version,
           body     = new.body,
           released = new.released,
           assigned = new.assigned,
           deployed = new.deployed
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[],
                  $6::text[], $7::bigint[], $8::bigint[], $9::bigint[])
           as new(lane, ws, app, name, version, body, released, assigned, deployed)
     where def.ctid = (
            select found.ctid
              from def as found
             where found.lane between new.lane and new.lane
             order by found.lane
             limit 1
           )
    returning 1
)
select expect_rows('def', count(*), cardinality($1))
  from changed
