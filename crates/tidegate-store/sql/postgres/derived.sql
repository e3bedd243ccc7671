-- Derived from src/schema.rs by src/sql/derive.rs.
-- The parameters are the columns in their order, one array per column, with rows sorted by key; for
-- a read, lock or delete, only the columns of the key. Each row is looked up separately in the
-- primary key, so that the plan does not depend on statistics (README).
--
-- read    rows by key; returns nothing for a missing row
-- insert  rows; has no `on conflict`: an existing row is an error, which the caller handles
-- update  all columns of rows; if all columns are in the key, only checks that the rows exist. A
--         missing row is an error (spec R2), raised by the statement because COMMIT is sent with it
-- delete  rows by key; a missing row is an error, as for an update
-- dump    all rows in key order, for tests, `doctor` and backups
-- lock    rows by key, and returns them as they are after the locks are taken. Locks in key order,
--         and waits. Returns only columns of the locked rows (spec R15): other rows are read by a
--         later statement. A missing row is not locked (spec R3)

-- table: reply
-- Rows are locked before they change; two transactions may insert the same key.

-- name: reply_read
select found.ws, found.id, found.seq, found.at, found.hash, found.answer, found.response
  from unnest($1::text[], $2::text[])
       as wanted(ws, id)
 cross join lateral (
        select reply.ws, reply.id, reply.seq, reply.at, reply.hash, reply.answer, reply.response
          from reply
         where (reply.ws, reply.id)
               between (wanted.ws, wanted.id)
                   and (wanted.ws, wanted.id)
         order by reply.ws, reply.id
         limit 1
       ) as found

-- name: reply_insert
insert into reply
       (ws, id, seq, at, hash, answer, response)
select new.ws, new.id, new.seq, new.at, new.hash, new.answer, new.response
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
              $7::text[])
       as new(ws, id, seq, at, hash, answer, response)

-- name: reply_update
with changed as (
    update reply
       set seq = new.seq,
           at = new.at,
           hash = new.hash,
           answer = new.answer,
           response = new.response
      from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
                  $7::text[])
           as new(ws, id, seq, at, hash, answer, response)
     where reply.ctid = (
            select found.ctid
              from reply as found
             where (found.ws, found.id)
                   between (new.ws, new.id)
                       and (new.ws, new.id)
             order by found.ws, found.id
             limit 1
           )
    returning 1
)
select expect_rows('reply', count(*), cardinality($1))
  from changed

-- name: reply_delete
with gone as (
    delete from reply
     using unnest($1::text[], $2::text[])
           as old(ws, id)
     where reply.ctid = (
            select found.ctid
              from reply as found
             where (found.ws, found.id)
                   between (old.ws, old.id)
                       and (old.ws, old.id)
             order by found.ws, found.id
             limit 1
           )
    returning 1
)
select expect_rows('reply', count(*), cardinality($1))
  from gone

-- name: reply_dump
select ws, id, seq, at, hash, answer, response
  from reply
 order by ws, id

-- name: reply_lock
select found.ws, found.id, found.seq, found.at, found.hash, found.answer, found.response
  from unnest($1::text[], $2::text[])
       as wanted(ws, id)
 cross join lateral (
        select reply.ws, reply.id, reply.seq, reply.at, reply.hash, reply.answer, reply.response
          from reply
         where (reply.ws, reply.id)
               between (wanted.ws, wanted.id)
                   and (wanted.ws, wanted.id)
         order by reply.ws, reply.id
         limit 1
           for no key update
       ) as found

-- table: api_key
-- Rows are locked before they change.

-- name: api_key_read
select found.id, found.ws, found.name, found.hash, found.read_only, found.made_at, found.expires_at,
       found.used_at, found.revoked_at
  from unnest($1::text[])
       as wanted(id)
 cross join lateral (
        select api_key.id, api_key.ws, api_key.name, api_key.hash, api_key.read_only,
               api_key.made_at, api_key.expires_at, api_key.used_at, api_key.revoked_at
          from api_key
         where api_key.id between wanted.id and wanted.id
         order by api_key.id
         limit 1
       ) as found

-- name: api_key_insert
insert into api_key
       (id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)
select new.id, new.ws, new.name, new.hash, new.read_only, new.made_at, new.expires_at, new.used_at,
       new.revoked_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
              $7::bigint[], $8::bigint[], $9::bigint[])
       as new(id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)

-- name: api_key_update
with changed as (
    update api_key
       set ws = new.ws,
           name = new.name,
           hash = new.hash,
           read_only = new.read_only,
           made_at = new.made_at,
           expires_at = new.expires_at,
           used_at = new.used_at,
           revoked_at = new.revoked_at
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                  $7::bigint[], $8::bigint[], $9::bigint[])
           as new(id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)
     where api_key.ctid = (
            select found.ctid
              from api_key as found
             where found.id between new.id and new.id
             order by found.id
             limit 1
           )
    returning 1
)
select expect_rows('api_key', count(*), cardinality($1))
  from changed

-- name: api_key_delete
with gone as (
    delete from api_key
     using unnest($1::text[])
           as old(id)
     where api_key.ctid = (
            select found.ctid
              from api_key as found
             where found.id between old.id and old.id
             order by found.id
             limit 1
           )
    returning 1
)
select expect_rows('api_key', count(*), cardinality($1))
  from gone

-- name: api_key_dump
select id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at
  from api_key
 order by id

-- name: api_key_lock
select found.id, found.ws, found.name, found.hash, found.read_only, found.made_at, found.expires_at,
       found.used_at, found.revoked_at
  from unnest($1::text[])
       as wanted(id)
 cross join lateral (
        select api_key.id, api_key.ws, api_key.name, api_key.hash, api_key.read_only,
               api_key.made_at, api_key.expires_at, api_key.used_at, api_key.revoked_at
          from api_key
         where api_key.id between wanted.id and wanted.id
         order by api_key.id
         limit 1
           for no key update
       ) as found

-- table: chore
-- Rows are locked before they change.

-- name: chore_read
select found.seq, found.salt, found.ws, found.topic, found.due, found.work
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select chore.seq, chore.salt, chore.ws, chore.topic, chore.due, chore.work
          from chore
         where chore.seq between wanted.seq and wanted.seq
         order by chore.seq
         limit 1
       ) as found

-- name: chore_insert
insert into chore
       (seq, salt, ws, topic, due, work)
select new.seq, new.salt, new.ws, new.topic, new.due, new.work
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[])
       as new(seq, salt, ws, topic, due, work)

-- name: chore_update
with changed as (
    update chore
       set salt = new.salt,
           ws = new.ws,
           topic = new.topic,
           due = new.due,
           work = new.work
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[])
           as new(seq, salt, ws, topic, due, work)
     where chore.ctid = (
            select found.ctid
              from chore as found
             where found.seq between new.seq and new.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('chore', count(*), cardinality($1))
  from changed

-- name: chore_delete
with gone as (
    delete from chore
     using unnest($1::bigint[])
           as old(seq)
     where chore.ctid = (
            select found.ctid
              from chore as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('chore', count(*), cardinality($1))
  from gone

-- name: chore_dump
select seq, salt, ws, topic, due, work
  from chore
 order by seq

-- name: chore_lock
select found.seq, found.salt, found.ws, found.topic, found.due, found.work
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select chore.seq, chore.salt, chore.ws, chore.topic, chore.due, chore.work
          from chore
         where chore.seq between wanted.seq and wanted.seq
         order by chore.seq
         limit 1
           for no key update
       ) as found

-- table: schedule
-- Rows are locked before they change; two transactions may insert the same key.

-- name: schedule_read
select found.ws, found.app, found.workflow, found.id, found.next, found.last, found.outcome,
       found.paused_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, workflow, id)
 cross join lateral (
        select schedule.ws, schedule.app, schedule.workflow, schedule.id, schedule.next,
               schedule.last, schedule.outcome, schedule.paused_at
          from schedule
         where (schedule.ws, schedule.app, schedule.workflow, schedule.id)
               between (wanted.ws, wanted.app, wanted.workflow, wanted.id)
                   and (wanted.ws, wanted.app, wanted.workflow, wanted.id)
         order by schedule.ws, schedule.app, schedule.workflow, schedule.id
         limit 1
       ) as found

-- name: schedule_insert
insert into schedule
       (ws, app, workflow, id, next, last, outcome, paused_at)
select new.ws, new.app, new.workflow, new.id, new.next, new.last, new.outcome, new.paused_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[])
       as new(ws, app, workflow, id, next, last, outcome, paused_at)

-- name: schedule_update
with changed as (
    update schedule
       set next = new.next,
           last = new.last,
           outcome = new.outcome,
           paused_at = new.paused_at
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
                  $7::text[], $8::bigint[])
           as new(ws, app, workflow, id, next, last, outcome, paused_at)
     where schedule.ctid = (
            select found.ctid
              from schedule as found
             where (found.ws, found.app, found.workflow, found.id)
                   between (new.ws, new.app, new.workflow, new.id)
                       and (new.ws, new.app, new.workflow, new.id)
             order by found.ws, found.app, found.workflow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('schedule', count(*), cardinality($1))
  from changed

-- name: schedule_delete
with gone as (
    delete from schedule
     using unnest($1::text[], $2::text[], $3::text[], $4::text[])
           as old(ws, app, workflow, id)
     where schedule.ctid = (
            select found.ctid
              from schedule as found
             where (found.ws, found.app, found.workflow, found.id)
                   between (old.ws, old.app, old.workflow, old.id)
                       and (old.ws, old.app, old.workflow, old.id)
             order by found.ws, found.app, found.workflow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('schedule', count(*), cardinality($1))
  from gone

-- name: schedule_dump
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 order by ws, app, workflow, id

-- name: schedule_lock
select found.ws, found.app, found.workflow, found.id, found.next, found.last, found.outcome,
       found.paused_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, workflow, id)
 cross join lateral (
        select schedule.ws, schedule.app, schedule.workflow, schedule.id, schedule.next,
               schedule.last, schedule.outcome, schedule.paused_at
          from schedule
         where (schedule.ws, schedule.app, schedule.workflow, schedule.id)
               between (wanted.ws, wanted.app, wanted.workflow, wanted.id)
                   and (wanted.ws, wanted.app, wanted.workflow, wanted.id)
         order by schedule.ws, schedule.app, schedule.workflow, schedule.id
         limit 1
           for no key update
       ) as found

-- table: gate
-- Rows are locked before they change; two transactions may insert the same key.

-- name: gate_read
select found.key, found.id, found.at, found.due, found.state, found.event
  from unnest($1::bytea[])
       as wanted(key)
 cross join lateral (
        select gate.key, gate.id, gate.at, gate.due, gate.state, gate.event
          from gate
         where gate.key between wanted.key and wanted.key
         order by gate.key
         limit 1
       ) as found

-- name: gate_insert
insert into gate
       (key, id, at, due, state, event)
select new.key, new.id, new.at, new.due, new.state, new.event
  from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
       as new(key, id, at, due, state, event)

-- name: gate_update
with changed as (
    update gate
       set id = new.id,
           at = new.at,
           due = new.due,
           state = new.state,
           event = new.event
      from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
           as new(key, id, at, due, state, event)
     where gate.ctid = (
            select found.ctid
              from gate as found
             where found.key between new.key and new.key
             order by found.key
             limit 1
           )
    returning 1
)
select expect_rows('gate', count(*), cardinality($1))
  from changed

-- name: gate_delete
with gone as (
    delete from gate
     using unnest($1::bytea[])
           as old(key)
     where gate.ctid = (
            select found.ctid
              from gate as found
             where found.key between old.key and old.key
             order by found.key
             limit 1
           )
    returning 1
)
select expect_rows('gate', count(*), cardinality($1))
  from gone

-- name: gate_dump
select key, id, at, due, state, event
  from gate
 order by key

-- name: gate_lock
select found.key, found.id, found.at, found.due, found.state, found.event
  from unnest($1::bytea[])
       as wanted(key)
 cross join lateral (
        select gate.key, gate.id, gate.at, gate.due, gate.state, gate.event
          from gate
         where gate.key between wanted.key and wanted.key
         order by gate.key
         limit 1
           for no key update
       ) as found

-- table: run
-- Rows are locked by `run_lock` before they change.

-- name: run_read
select found.seq, found.salt, found.ws, found.lane, found.ready, found.line, found.tier,
       found.order_at, found.order_seq, found.due, found.owner, found.fence, found.body,
       found.event_seq, found.past, found.parked, found.listens
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select run.seq, run.salt, run.ws, run.lane, run.ready, run.line, run.tier, run.order_at,
               run.order_seq, run.due, run.owner, run.fence, run.body, run.event_seq, run.past,
               run.parked, run.listens
          from run
         where run.seq between wanted.seq and wanted.seq
         order by run.seq
         limit 1
       ) as found

-- name: run_insert
insert into run
       (seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
        event_seq, past, parked, listens)
select new.seq, new.salt, new.ws, new.lane, new.ready, new.line, new.tier, new.order_at,
       new.order_seq, new.due, new.owner, new.fence, new.body, new.event_seq, new.past, new.parked,
       new.listens
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
              $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[],
              $13::text[], $14::bigint[], $15::bigint[], $16::text[], $17::bigint[])
       as new(seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
              event_seq, past, parked, listens)

-- name: run_update
with changed as (
    update run
       set salt = new.salt,
           ws = new.ws,
           lane = new.lane,
           ready = new.ready,
           line = new.line,
           tier = new.tier,
           order_at = new.order_at,
           order_seq = new.order_seq,
           due = new.due,
           owner = new.owner,
           fence = new.fence,
           body = new.body,
           event_seq = new.event_seq,
           past = new.past,
           parked = new.parked,
           listens = new.listens
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                  $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[],
                  $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::text[],
                  $17::bigint[])
           as new(seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence,
                  body, event_seq, past, parked, listens)
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

-- name: run_delete
with gone as (
    delete from run
     using unnest($1::bigint[])
           as old(seq)
     where run.ctid = (
            select found.ctid
              from run as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('run', count(*), cardinality($1))
  from gone

-- name: run_dump
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked, listens
  from run
 order by seq

-- table: session
-- Rows are locked before they change; two transactions may insert the same key.

-- name: session_read
select found.ws, found.app, found.flow, found.id, found.version, found.body
  from unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, flow, id)
 cross join lateral (
        select session.ws, session.app, session.flow, session.id, session.version, session.body
          from session
         where (session.ws, session.app, session.flow, session.id)
               between (wanted.ws, wanted.app, wanted.flow, wanted.id)
                   and (wanted.ws, wanted.app, wanted.flow, wanted.id)
         order by session.ws, session.app, session.flow, session.id
         limit 1
       ) as found

-- name: session_insert
insert into session
       (ws, app, flow, id, version, body)
select new.ws, new.app, new.flow, new.id, new.version, new.body
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
       as new(ws, app, flow, id, version, body)

-- name: session_update
with changed as (
    update session
       set version = new.version,
           body = new.body
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
           as new(ws, app, flow, id, version, body)
     where session.ctid = (
            select found.ctid
              from session as found
             where (found.ws, found.app, found.flow, found.id)
                   between (new.ws, new.app, new.flow, new.id)
                       and (new.ws, new.app, new.flow, new.id)
             order by found.ws, found.app, found.flow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('session', count(*), cardinality($1))
  from changed

-- name: session_delete
with gone as (
    delete from session
     using unnest($1::text[], $2::text[], $3::text[], $4::text[])
           as old(ws, app, flow, id)
     where session.ctid = (
            select found.ctid
              from session as found
             where (found.ws, found.app, found.flow, found.id)
                   between (old.ws, old.app, old.flow, old.id)
                       and (old.ws, old.app, old.flow, old.id)
             order by found.ws, found.app, found.flow, found.id
             limit 1
           )
    returning 1
)
select expect_rows('session', count(*), cardinality($1))
  from gone

-- name: session_dump
select ws, app, flow, id, version, body
  from session
 order by ws, app, flow, id

-- name: session_lock
select found.ws, found.app, found.flow, found.id, found.version, found.body
  from unnest($1::text[], $2::text[], $3::text[], $4::text[])
       as wanted(ws, app, flow, id)
 cross join lateral (
        select session.ws, session.app, session.flow, session.id, session.version, session.body
          from session
         where (session.ws, session.app, session.flow, session.id)
               between (wanted.ws, wanted.app, wanted.flow, wanted.id)
                   and (wanted.ws, wanted.app, wanted.flow, wanted.id)
         order by session.ws, session.app, session.flow, session.id
         limit 1
           for no key update
       ) as found

-- table: engine
-- Rows are locked before they change; two transactions may insert the same key.

-- name: engine_read
select found.id, found.beat, found.dead, found.serves, found.lease_ms
  from unnest($1::text[])
       as wanted(id)
 cross join lateral (
        select engine.id, engine.beat, engine.dead, engine.serves, engine.lease_ms
          from engine
         where engine.id between wanted.id and wanted.id
         order by engine.id
         limit 1
       ) as found

-- name: engine_insert
insert into engine
       (id, beat, dead, serves, lease_ms)
select new.id, new.beat, new.dead, new.serves, new.lease_ms
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])
       as new(id, beat, dead, serves, lease_ms)

-- name: engine_update
with changed as (
    update engine
       set beat = new.beat,
           dead = new.dead,
           serves = new.serves,
           lease_ms = new.lease_ms
      from unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])
           as new(id, beat, dead, serves, lease_ms)
     where engine.ctid = (
            select found.ctid
              from engine as found
             where found.id between new.id and new.id
             order by found.id
             limit 1
           )
    returning 1
)
select expect_rows('engine', count(*), cardinality($1))
  from changed

-- name: engine_delete
with gone as (
    delete from engine
     using unnest($1::text[])
           as old(id)
     where engine.ctid = (
            select found.ctid
              from engine as found
             where found.id between old.id and old.id
             order by found.id
             limit 1
           )
    returning 1
)
select expect_rows('engine', count(*), cardinality($1))
  from gone

-- name: engine_dump
select id, beat, dead, serves, lease_ms
  from engine
 order by id

-- name: engine_lock
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

-- table: stream
-- Rows are locked before they change; two transactions may insert the same key.

-- name: stream_read
select found.ws, found.name, found.id, found.head, found.closed
  from unnest($1::text[], $2::text[])
       as wanted(ws, name)
 cross join lateral (
        select stream.ws, stream.name, stream.id, stream.head, stream.closed
          from stream
         where (stream.ws, stream.name)
               between (wanted.ws, wanted.name)
                   and (wanted.ws, wanted.name)
         order by stream.ws, stream.name
         limit 1
       ) as found

-- name: stream_insert
insert into stream
       (ws, name, id, head, closed)
select new.ws, new.name, new.id, new.head, new.closed
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
       as new(ws, name, id, head, closed)

-- name: stream_update
with changed as (
    update stream
       set id = new.id,
           head = new.head,
           closed = new.closed
      from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
           as new(ws, name, id, head, closed)
     where stream.ctid = (
            select found.ctid
              from stream as found
             where (found.ws, found.name)
                   between (new.ws, new.name)
                       and (new.ws, new.name)
             order by found.ws, found.name
             limit 1
           )
    returning 1
)
select expect_rows('stream', count(*), cardinality($1))
  from changed

-- name: stream_delete
with gone as (
    delete from stream
     using unnest($1::text[], $2::text[])
           as old(ws, name)
     where stream.ctid = (
            select found.ctid
              from stream as found
             where (found.ws, found.name)
                   between (old.ws, old.name)
                       and (old.ws, old.name)
             order by found.ws, found.name
             limit 1
           )
    returning 1
)
select expect_rows('stream', count(*), cardinality($1))
  from gone

-- name: stream_dump
select ws, name, id, head, closed
  from stream
 order by ws, name

-- name: stream_lock
select found.ws, found.name, found.id, found.head, found.closed
  from unnest($1::text[], $2::text[])
       as wanted(ws, name)
 cross join lateral (
        select stream.ws, stream.name, stream.id, stream.head, stream.closed
          from stream
         where (stream.ws, stream.name)
               between (wanted.ws, wanted.name)
                   and (wanted.ws, wanted.name)
         order by stream.ws, stream.name
         limit 1
           for no key update
       ) as found

-- table: sub
-- Rows are locked before they change; two transactions may insert the same key.

-- name: sub_read
select found.ws, found.reaction, found.stream, found.work, found.at, found.want, found.owner,
       found.fence, found.until, found.due, found.since, found.failures, found.claims,
       found.blocked, found.log, found.error
  from unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, reaction, stream)
 cross join lateral (
        select sub.ws, sub.reaction, sub.stream, sub.work, sub.at, sub.want, sub.owner, sub.fence,
               sub.until, sub.due, sub.since, sub.failures, sub.claims, sub.blocked, sub.log,
               sub.error
          from sub
         where (sub.ws, sub.reaction, sub.stream)
               between (wanted.ws, wanted.reaction, wanted.stream)
                   and (wanted.ws, wanted.reaction, wanted.stream)
         order by sub.ws, sub.reaction, sub.stream
         limit 1
       ) as found

-- name: sub_insert
insert into sub
       (ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures, claims,
        blocked, log, error)
select new.ws, new.reaction, new.stream, new.work, new.at, new.want, new.owner, new.fence,
       new.until, new.due, new.since, new.failures, new.claims, new.blocked, new.log, new.error
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
              $13::bigint[], $14::text[], $15::bigint[], $16::text[])
       as new(ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures,
              claims, blocked, log, error)

-- name: sub_update
with changed as (
    update sub
       set work = new.work,
           at = new.at,
           want = new.want,
           owner = new.owner,
           fence = new.fence,
           until = new.until,
           due = new.due,
           since = new.since,
           failures = new.failures,
           claims = new.claims,
           blocked = new.blocked,
           log = new.log,
           error = new.error
      from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                  $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
                  $12::bigint[], $13::bigint[], $14::text[], $15::bigint[], $16::text[])
           as new(ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures,
                  claims, blocked, log, error)
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

-- name: sub_delete
with gone as (
    delete from sub
     using unnest($1::text[], $2::text[], $3::text[])
           as old(ws, reaction, stream)
     where sub.ctid = (
            select found.ctid
              from sub as found
             where (found.ws, found.reaction, found.stream)
                   between (old.ws, old.reaction, old.stream)
                       and (old.ws, old.reaction, old.stream)
             order by found.ws, found.reaction, found.stream
             limit 1
           )
    returning 1
)
select expect_rows('sub', count(*), cardinality($1))
  from gone

-- name: sub_dump
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures, claims,
       blocked, log, error
  from sub
 order by ws, reaction, stream

-- name: sub_lock
select found.ws, found.reaction, found.stream, found.work, found.at, found.want, found.owner,
       found.fence, found.until, found.due, found.since, found.failures, found.claims,
       found.blocked, found.log, found.error
  from unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, reaction, stream)
 cross join lateral (
        select sub.ws, sub.reaction, sub.stream, sub.work, sub.at, sub.want, sub.owner, sub.fence,
               sub.until, sub.due, sub.since, sub.failures, sub.claims, sub.blocked, sub.log,
               sub.error
          from sub
         where (sub.ws, sub.reaction, sub.stream)
               between (wanted.ws, wanted.reaction, wanted.stream)
                   and (wanted.ws, wanted.reaction, wanted.stream)
         order by sub.ws, sub.reaction, sub.stream
         limit 1
           for no key update
       ) as found

-- table: log_head
-- Rows are locked before they change; two transactions may insert the same key.

-- name: log_head_read
select found.ws, found.pos
  from unnest($1::text[])
       as wanted(ws)
 cross join lateral (
        select log_head.ws, log_head.pos
          from log_head
         where log_head.ws between wanted.ws and wanted.ws
         order by log_head.ws
         limit 1
       ) as found

-- name: log_head_insert
insert into log_head
       (ws, pos)
select new.ws, new.pos
  from unnest($1::text[], $2::bigint[])
       as new(ws, pos)

-- name: log_head_update
with changed as (
    update log_head
       set pos = new.pos
      from unnest($1::text[], $2::bigint[])
           as new(ws, pos)
     where log_head.ctid = (
            select found.ctid
              from log_head as found
             where found.ws between new.ws and new.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('log_head', count(*), cardinality($1))
  from changed

-- name: log_head_delete
with gone as (
    delete from log_head
     using unnest($1::text[])
           as old(ws)
     where log_head.ctid = (
            select found.ctid
              from log_head as found
             where found.ws between old.ws and old.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('log_head', count(*), cardinality($1))
  from gone

-- name: log_head_dump
select ws, pos
  from log_head
 order by ws

-- name: log_head_lock
select found.ws, found.pos
  from unnest($1::text[])
       as wanted(ws)
 cross join lateral (
        select log_head.ws, log_head.pos
          from log_head
         where log_head.ws between wanted.ws and wanted.ws
         order by log_head.ws
         limit 1
           for no key update
       ) as found

-- table: epoch
-- Rows are changed under the latch of their workspace; two transactions may insert the same key.

-- name: epoch_read
select found.ws, found.n
  from unnest($1::text[])
       as wanted(ws)
 cross join lateral (
        select epoch.ws, epoch.n
          from epoch
         where epoch.ws between wanted.ws and wanted.ws
         order by epoch.ws
         limit 1
       ) as found

-- name: epoch_insert
insert into epoch
       (ws, n)
select new.ws, new.n
  from unnest($1::text[], $2::bigint[])
       as new(ws, n)

-- name: epoch_update
with changed as (
    update epoch
       set n = new.n
      from unnest($1::text[], $2::bigint[])
           as new(ws, n)
     where epoch.ctid = (
            select found.ctid
              from epoch as found
             where found.ws between new.ws and new.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('epoch', count(*), cardinality($1))
  from changed

-- name: epoch_delete
with gone as (
    delete from epoch
     using unnest($1::text[])
           as old(ws)
     where epoch.ctid = (
            select found.ctid
              from epoch as found
             where found.ws between old.ws and old.ws
             order by found.ws
             limit 1
           )
    returning 1
)
select expect_rows('epoch', count(*), cardinality($1))
  from gone

-- name: epoch_dump
select ws, n
  from epoch
 order by ws

-- table: def
-- Rows are changed under the latch of their workspace.

-- name: def_read
select found.lane, found.ws, found.app, found.name, found.version, found.body, found.released,
       found.assigned, found.deployed
  from unnest($1::bigint[])
       as wanted(lane)
 cross join lateral (
        select def.lane, def.ws, def.app, def.name, def.version, def.body, def.released,
               def.assigned, def.deployed
          from def
         where def.lane between wanted.lane and wanted.lane
         order by def.lane
         limit 1
       ) as found

-- name: def_insert
insert into def
       (lane, ws, app, name, version, body, released, assigned, deployed)
select new.lane, new.ws, new.app, new.name, new.version, new.body, new.released, new.assigned,
       new.deployed
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[],
              $7::bigint[], $8::bigint[], $9::bigint[])
       as new(lane, ws, app, name, version, body, released, assigned, deployed)

-- name: def_update
with changed as (
    update def
       set ws = new.ws,
           app = new.app,
           name = new.name,
           version = new.version,
           body = new.body,
           released = new.released,
           assigned = new.assigned,
           deployed = new.deployed
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[],
                  $7::bigint[], $8::bigint[], $9::bigint[])
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

-- name: def_delete
with gone as (
    delete from def
     using unnest($1::bigint[])
           as old(lane)
     where def.ctid = (
            select found.ctid
              from def as found
             where found.lane between old.lane and old.lane
             order by found.lane
             limit 1
           )
    returning 1
)
select expect_rows('def', count(*), cardinality($1))
  from gone

-- name: def_dump
select lane, ws, app, name, version, body, released, assigned, deployed
  from def
 order by lane

-- table: event
-- Rows are changed under the lock of the row that owns them.

-- name: event_read
select found.seq, found.salt, found.ws, found.kind, found.name, found.at, found.ts, found.data,
       found.delivery, found.attributes
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select event.seq, event.salt, event.ws, event.kind, event.name, event.at, event.ts,
               event.data, event.delivery, event.attributes
          from event
         where event.seq between wanted.seq and wanted.seq
         order by event.seq
         limit 1
       ) as found

-- name: event_insert
insert into event
       (seq, salt, ws, kind, name, at, ts, data, delivery, attributes)
select new.seq, new.salt, new.ws, new.kind, new.name, new.at, new.ts, new.data, new.delivery,
       new.attributes
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[],
              $7::bigint[], $8::text[], $9::text[], $10::text[])
       as new(seq, salt, ws, kind, name, at, ts, data, delivery, attributes)

-- name: event_update
with changed as (
    update event
       set salt = new.salt,
           ws = new.ws,
           kind = new.kind,
           name = new.name,
           at = new.at,
           ts = new.ts,
           data = new.data,
           delivery = new.delivery,
           attributes = new.attributes
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[],
                  $7::bigint[], $8::text[], $9::text[], $10::text[])
           as new(seq, salt, ws, kind, name, at, ts, data, delivery, attributes)
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

-- name: event_delete
with gone as (
    delete from event
     using unnest($1::bigint[])
           as old(seq)
     where event.ctid = (
            select found.ctid
              from event as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('event', count(*), cardinality($1))
  from gone

-- name: event_dump
select seq, salt, ws, kind, name, at, ts, data, delivery, attributes
  from event
 order by seq

-- table: ended
-- Rows are changed under the lock of the row that owns them.

-- name: ended_read
select found.seq, found.salt, found.ws, found.app, found.workflow, found.version, found.state,
       found.queued_at, found.ended_at, found.event_seq, found.body, found.lane
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select ended.seq, ended.salt, ended.ws, ended.app, ended.workflow, ended.version,
               ended.state, ended.queued_at, ended.ended_at, ended.event_seq, ended.body, ended.lane
          from ended
         where ended.seq between wanted.seq and wanted.seq
         order by ended.seq
         limit 1
       ) as found

-- name: ended_insert
insert into ended
       (seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body, lane)
select new.seq, new.salt, new.ws, new.app, new.workflow, new.version, new.state, new.queued_at,
       new.ended_at, new.event_seq, new.body, new.lane
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[],
              $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[])
       as new(seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
              lane)

-- name: ended_update
with changed as (
    update ended
       set salt = new.salt,
           ws = new.ws,
           app = new.app,
           workflow = new.workflow,
           version = new.version,
           state = new.state,
           queued_at = new.queued_at,
           ended_at = new.ended_at,
           event_seq = new.event_seq,
           body = new.body,
           lane = new.lane
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[],
                  $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[])
           as new(seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq,
                  body, lane)
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

-- name: ended_delete
with gone as (
    delete from ended
     using unnest($1::bigint[])
           as old(seq)
     where ended.ctid = (
            select found.ctid
              from ended as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('ended', count(*), cardinality($1))
  from gone

-- name: ended_dump
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body, lane
  from ended
 order by seq

-- table: step
-- Rows are changed under the lock of the row that owns them.

-- name: step_read
select found.run, found.id, found.kind, found.fence, found.at, found.ok, found.out, found.seq
  from unnest($1::bigint[], $2::text[])
       as wanted(run, id)
 cross join lateral (
        select step.run, step.id, step.kind, step.fence, step.at, step.ok, step.out, step.seq
          from step
         where (step.run, step.id)
               between (wanted.run, wanted.id)
                   and (wanted.run, wanted.id)
         order by step.run, step.id
         limit 1
       ) as found

-- name: step_insert
insert into step
       (run, id, kind, fence, at, ok, out, seq)
select new.run, new.id, new.kind, new.fence, new.at, new.ok, new.out, new.seq
  from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[])
       as new(run, id, kind, fence, at, ok, out, seq)

-- name: step_update
with changed as (
    update step
       set kind = new.kind,
           fence = new.fence,
           at = new.at,
           ok = new.ok,
           out = new.out,
           seq = new.seq
      from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                  $7::text[], $8::bigint[])
           as new(run, id, kind, fence, at, ok, out, seq)
     where step.ctid = (
            select found.ctid
              from step as found
             where (found.run, found.id)
                   between (new.run, new.id)
                       and (new.run, new.id)
             order by found.run, found.id
             limit 1
           )
    returning 1
)
select expect_rows('step', count(*), cardinality($1))
  from changed

-- name: step_delete
with gone as (
    delete from step
     using unnest($1::bigint[], $2::text[])
           as old(run, id)
     where step.ctid = (
            select found.ctid
              from step as found
             where (found.run, found.id)
                   between (old.run, old.id)
                       and (old.run, old.id)
             order by found.run, found.id
             limit 1
           )
    returning 1
)
select expect_rows('step', count(*), cardinality($1))
  from gone

-- name: step_dump
select run, id, kind, fence, at, ok, out, seq
  from step
 order by run, id

-- table: item
-- Rows are changed under the lock of the row that owns them.

-- name: item_read
select found.run, found.n, found.event_seq, found.event_salt
  from unnest($1::bigint[], $2::bigint[])
       as wanted(run, n)
 cross join lateral (
        select item.run, item.n, item.event_seq, item.event_salt
          from item
         where (item.run, item.n)
               between (wanted.run, wanted.n)
                   and (wanted.run, wanted.n)
         order by item.run, item.n
         limit 1
       ) as found

-- name: item_insert
insert into item
       (run, n, event_seq, event_salt)
select new.run, new.n, new.event_seq, new.event_salt
  from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
       as new(run, n, event_seq, event_salt)

-- name: item_update
with changed as (
    update item
       set event_seq = new.event_seq,
           event_salt = new.event_salt
      from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
           as new(run, n, event_seq, event_salt)
     where item.ctid = (
            select found.ctid
              from item as found
             where (found.run, found.n)
                   between (new.run, new.n)
                       and (new.run, new.n)
             order by found.run, found.n
             limit 1
           )
    returning 1
)
select expect_rows('item', count(*), cardinality($1))
  from changed

-- name: item_delete
with gone as (
    delete from item
     using unnest($1::bigint[], $2::bigint[])
           as old(run, n)
     where item.ctid = (
            select found.ctid
              from item as found
             where (found.run, found.n)
                   between (old.run, old.n)
                       and (old.run, old.n)
             order by found.run, found.n
             limit 1
           )
    returning 1
)
select expect_rows('item', count(*), cardinality($1))
  from gone

-- name: item_dump
select run, n, event_seq, event_salt
  from item
 order by run, n

-- table: wait
-- Rows are changed under the lock of the row that owns them.

-- name: wait_read
select found.ws, found.name, found.path, found.value, found.run, found.step
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as wanted(ws, name, path, value, run, step)
 cross join lateral (
        select wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step
          from wait
         where (wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step)
               between (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
                   and (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
         order by wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step
         limit 1
       ) as found

-- name: wait_insert
insert into wait
       (ws, name, path, value, run, step)
select new.ws, new.name, new.path, new.value, new.run, new.step
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as new(ws, name, path, value, run, step)

-- name: wait_update
select expect_rows('wait', count(*), cardinality($1))
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
       as wanted(ws, name, path, value, run, step)
 cross join lateral (
        select 1
          from wait
         where (wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step)
               between (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
                   and (wanted.ws, wanted.name, wanted.path, wanted.value, wanted.run, wanted.step)
         order by wait.ws, wait.name, wait.path, wait.value, wait.run, wait.step
         limit 1
       ) as found

-- name: wait_delete
with gone as (
    delete from wait
     using unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
           as old(ws, name, path, value, run, step)
     where wait.ctid = (
            select found.ctid
              from wait as found
             where (found.ws, found.name, found.path, found.value, found.run, found.step)
                   between (old.ws, old.name, old.path, old.value, old.run, old.step)
                       and (old.ws, old.name, old.path, old.value, old.run, old.step)
             order by found.ws, found.name, found.path, found.value, found.run, found.step
             limit 1
           )
    returning 1
)
select expect_rows('wait', count(*), cardinality($1))
  from gone

-- name: wait_dump
select ws, name, path, value, run, step
  from wait
 order by ws, name, path, value, run, step

-- table: wait_path
-- Rows are changed under the lock of the row that owns them; two transactions may insert the same key.

-- name: wait_path_read
select found.ws, found.name, found.path
  from unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, name, path)
 cross join lateral (
        select wait_path.ws, wait_path.name, wait_path.path
          from wait_path
         where (wait_path.ws, wait_path.name, wait_path.path)
               between (wanted.ws, wanted.name, wanted.path)
                   and (wanted.ws, wanted.name, wanted.path)
         order by wait_path.ws, wait_path.name, wait_path.path
         limit 1
       ) as found

-- name: wait_path_insert
insert into wait_path
       (ws, name, path)
select new.ws, new.name, new.path
  from unnest($1::text[], $2::text[], $3::text[])
       as new(ws, name, path)

-- name: wait_path_update
select expect_rows('wait_path', count(*), cardinality($1))
  from unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, name, path)
 cross join lateral (
        select 1
          from wait_path
         where (wait_path.ws, wait_path.name, wait_path.path)
               between (wanted.ws, wanted.name, wanted.path)
                   and (wanted.ws, wanted.name, wanted.path)
         order by wait_path.ws, wait_path.name, wait_path.path
         limit 1
       ) as found

-- name: wait_path_delete
with gone as (
    delete from wait_path
     using unnest($1::text[], $2::text[], $3::text[])
           as old(ws, name, path)
     where wait_path.ctid = (
            select found.ctid
              from wait_path as found
             where (found.ws, found.name, found.path)
                   between (old.ws, old.name, old.path)
                       and (old.ws, old.name, old.path)
             order by found.ws, found.name, found.path
             limit 1
           )
    returning 1
)
select expect_rows('wait_path', count(*), cardinality($1))
  from gone

-- name: wait_path_dump
select ws, name, path
  from wait_path
 order by ws, name, path

-- table: signal
-- Rows are changed under the lock of the row that owns them.

-- name: signal_read
select found.run, found.name, found.seq, found.data
  from unnest($1::bigint[], $2::text[], $3::bigint[])
       as wanted(run, name, seq)
 cross join lateral (
        select signal.run, signal.name, signal.seq, signal.data
          from signal
         where (signal.run, signal.name, signal.seq)
               between (wanted.run, wanted.name, wanted.seq)
                   and (wanted.run, wanted.name, wanted.seq)
         order by signal.run, signal.name, signal.seq
         limit 1
       ) as found

-- name: signal_insert
insert into signal
       (run, name, seq, data)
select new.run, new.name, new.seq, new.data
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
       as new(run, name, seq, data)

-- name: signal_update
with changed as (
    update signal
       set data = new.data
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
           as new(run, name, seq, data)
     where signal.ctid = (
            select found.ctid
              from signal as found
             where (found.run, found.name, found.seq)
                   between (new.run, new.name, new.seq)
                       and (new.run, new.name, new.seq)
             order by found.run, found.name, found.seq
             limit 1
           )
    returning 1
)
select expect_rows('signal', count(*), cardinality($1))
  from changed

-- name: signal_delete
with gone as (
    delete from signal
     using unnest($1::bigint[], $2::text[], $3::bigint[])
           as old(run, name, seq)
     where signal.ctid = (
            select found.ctid
              from signal as found
             where (found.run, found.name, found.seq)
                   between (old.run, old.name, old.seq)
                       and (old.run, old.name, old.seq)
             order by found.run, found.name, found.seq
             limit 1
           )
    returning 1
)
select expect_rows('signal', count(*), cardinality($1))
  from gone

-- name: signal_dump
select run, name, seq, data
  from signal
 order by run, name, seq

-- table: receipt
-- Rows are changed under the lock of the row that owns them.

-- name: receipt_read
select found.seq, found.ws, found.app, found.workflow, found.key, found.event, found.at,
       found.verdict
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select receipt.seq, receipt.ws, receipt.app, receipt.workflow, receipt.key, receipt.event,
               receipt.at, receipt.verdict
          from receipt
         where receipt.seq between wanted.seq and wanted.seq
         order by receipt.seq
         limit 1
       ) as found

-- name: receipt_insert
insert into receipt
       (seq, ws, app, workflow, key, event, at, verdict)
select new.seq, new.ws, new.app, new.workflow, new.key, new.event, new.at, new.verdict
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[],
              $7::bigint[], $8::text[])
       as new(seq, ws, app, workflow, key, event, at, verdict)

-- name: receipt_update
with changed as (
    update receipt
       set ws = new.ws,
           app = new.app,
           workflow = new.workflow,
           key = new.key,
           event = new.event,
           at = new.at,
           verdict = new.verdict
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[],
                  $7::bigint[], $8::text[])
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

-- name: receipt_delete
with gone as (
    delete from receipt
     using unnest($1::bigint[])
           as old(seq)
     where receipt.ctid = (
            select found.ctid
              from receipt as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('receipt', count(*), cardinality($1))
  from gone

-- name: receipt_dump
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 order by seq

-- table: log
-- Rows are changed under the lock of the row that owns them.

-- name: log_read
select found.stream, found.version, found.ws, found.pos, found.seq, found.salt, found.name,
       found.at, found.data, found.meta
  from unnest($1::bigint[], $2::bigint[])
       as wanted(stream, version)
 cross join lateral (
        select log.stream, log.version, log.ws, log.pos, log.seq, log.salt, log.name, log.at,
               log.data, log.meta
          from log
         where (log.stream, log.version)
               between (wanted.stream, wanted.version)
                   and (wanted.stream, wanted.version)
         order by log.stream, log.version
         limit 1
       ) as found

-- name: log_insert
insert into log
       (stream, version, ws, pos, seq, salt, name, at, data, meta)
select new.stream, new.version, new.ws, new.pos, new.seq, new.salt, new.name, new.at, new.data,
       new.meta
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[], $9::text[], $10::text[])
       as new(stream, version, ws, pos, seq, salt, name, at, data, meta)

-- name: log_update
with changed as (
    update log
       set ws = new.ws,
           pos = new.pos,
           seq = new.seq,
           salt = new.salt,
           name = new.name,
           at = new.at,
           data = new.data,
           meta = new.meta
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
                  $7::text[], $8::bigint[], $9::text[], $10::text[])
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

-- name: log_delete
with gone as (
    delete from log
     using unnest($1::bigint[], $2::bigint[])
           as old(stream, version)
     where log.ctid = (
            select found.ctid
              from log as found
             where (found.stream, found.version)
                   between (old.stream, old.version)
                       and (old.stream, old.version)
             order by found.stream, found.version
             limit 1
           )
    returning 1
)
select expect_rows('log', count(*), cardinality($1))
  from gone

-- name: log_dump
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 order by stream, version

-- table: chunk
-- Rows are changed under the lock of the row that owns them.

-- name: chunk_read
select found.run, found.step, found.attempt, found.n, found.seq, found.data
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
       as wanted(run, step, attempt, n)
 cross join lateral (
        select chunk.run, chunk.step, chunk.attempt, chunk.n, chunk.seq, chunk.data
          from chunk
         where (chunk.run, chunk.step, chunk.attempt, chunk.n)
               between (wanted.run, wanted.step, wanted.attempt, wanted.n)
                   and (wanted.run, wanted.step, wanted.attempt, wanted.n)
         order by chunk.run, chunk.step, chunk.attempt, chunk.n
         limit 1
       ) as found

-- name: chunk_insert
insert into chunk
       (run, step, attempt, n, seq, data)
select new.run, new.step, new.attempt, new.n, new.seq, new.data
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
       as new(run, step, attempt, n, seq, data)

-- name: chunk_update
with changed as (
    update chunk
       set seq = new.seq,
           data = new.data
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
           as new(run, step, attempt, n, seq, data)
     where chunk.ctid = (
            select found.ctid
              from chunk as found
             where (found.run, found.step, found.attempt, found.n)
                   between (new.run, new.step, new.attempt, new.n)
                       and (new.run, new.step, new.attempt, new.n)
             order by found.run, found.step, found.attempt, found.n
             limit 1
           )
    returning 1
)
select expect_rows('chunk', count(*), cardinality($1))
  from changed

-- name: chunk_delete
with gone as (
    delete from chunk
     using unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[])
           as old(run, step, attempt, n)
     where chunk.ctid = (
            select found.ctid
              from chunk as found
             where (found.run, found.step, found.attempt, found.n)
                   between (old.run, old.step, old.attempt, old.n)
                       and (old.run, old.step, old.attempt, old.n)
             order by found.run, found.step, found.attempt, found.n
             limit 1
           )
    returning 1
)
select expect_rows('chunk', count(*), cardinality($1))
  from gone

-- name: chunk_dump
select run, step, attempt, n, seq, data
  from chunk
 order by run, step, attempt, n

-- table: staged
-- Rows are changed under the lock of the row that owns them.

-- name: staged_read
select found.run, found.n, found.app, found.flow, found.id, found.op, found.version, found.seen
  from unnest($1::bigint[], $2::bigint[])
       as wanted(run, n)
 cross join lateral (
        select staged.run, staged.n, staged.app, staged.flow, staged.id, staged.op, staged.version,
               staged.seen
          from staged
         where (staged.run, staged.n)
               between (wanted.run, wanted.n)
                   and (wanted.run, wanted.n)
         order by staged.run, staged.n
         limit 1
       ) as found

-- name: staged_insert
insert into staged
       (run, n, app, flow, id, op, version, seen)
select new.run, new.n, new.app, new.flow, new.id, new.op, new.version, new.seen
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
              $7::bigint[], $8::text[])
       as new(run, n, app, flow, id, op, version, seen)

-- name: staged_update
with changed as (
    update staged
       set app = new.app,
           flow = new.flow,
           id = new.id,
           op = new.op,
           version = new.version,
           seen = new.seen
      from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                  $7::bigint[], $8::text[])
           as new(run, n, app, flow, id, op, version, seen)
     where staged.ctid = (
            select found.ctid
              from staged as found
             where (found.run, found.n)
                   between (new.run, new.n)
                       and (new.run, new.n)
             order by found.run, found.n
             limit 1
           )
    returning 1
)
select expect_rows('staged', count(*), cardinality($1))
  from changed

-- name: staged_delete
with gone as (
    delete from staged
     using unnest($1::bigint[], $2::bigint[])
           as old(run, n)
     where staged.ctid = (
            select found.ctid
              from staged as found
             where (found.run, found.n)
                   between (old.run, old.n)
                       and (old.run, old.n)
             order by found.run, found.n
             limit 1
           )
    returning 1
)
select expect_rows('staged', count(*), cardinality($1))
  from gone

-- name: staged_dump
select run, n, app, flow, id, op, version, seen
  from staged
 order by run, n

-- table: snapshot
-- Rows are changed under the lock of the row that owns them.

-- name: snapshot_read
select found.stream, found.kind, found.version, found.body
  from unnest($1::bigint[], $2::text[])
       as wanted(stream, kind)
 cross join lateral (
        select snapshot.stream, snapshot.kind, snapshot.version, snapshot.body
          from snapshot
         where (snapshot.stream, snapshot.kind)
               between (wanted.stream, wanted.kind)
                   and (wanted.stream, wanted.kind)
         order by snapshot.stream, snapshot.kind
         limit 1
       ) as found

-- name: snapshot_insert
insert into snapshot
       (stream, kind, version, body)
select new.stream, new.kind, new.version, new.body
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
       as new(stream, kind, version, body)

-- name: snapshot_update
with changed as (
    update snapshot
       set version = new.version,
           body = new.body
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])
           as new(stream, kind, version, body)
     where snapshot.ctid = (
            select found.ctid
              from snapshot as found
             where (found.stream, found.kind)
                   between (new.stream, new.kind)
                       and (new.stream, new.kind)
             order by found.stream, found.kind
             limit 1
           )
    returning 1
)
select expect_rows('snapshot', count(*), cardinality($1))
  from changed

-- name: snapshot_delete
with gone as (
    delete from snapshot
     using unnest($1::bigint[], $2::text[])
           as old(stream, kind)
     where snapshot.ctid = (
            select found.ctid
              from snapshot as found
             where (found.stream, found.kind)
                   between (old.stream, old.kind)
                       and (old.stream, old.kind)
             order by found.stream, found.kind
             limit 1
           )
    returning 1
)
select expect_rows('snapshot', count(*), cardinality($1))
  from gone

-- name: snapshot_dump
select stream, kind, version, body
  from snapshot
 order by stream, kind

-- table: audit
-- Rows are changed under the lock of the row that owns them.

-- name: audit_read
select found.seq, found.ws, found.at, found.author, found.address, found.operation, found.subject,
       found.before, found.after
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select audit.seq, audit.ws, audit.at, audit.author, audit.address, audit.operation,
               audit.subject, audit.before, audit.after
          from audit
         where audit.seq between wanted.seq and wanted.seq
         order by audit.seq
         limit 1
       ) as found

-- name: audit_insert
insert into audit
       (seq, ws, at, author, address, operation, subject, before, after)
select new.seq, new.ws, new.at, new.author, new.address, new.operation, new.subject, new.before,
       new.after
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
              $7::text[], $8::text[], $9::text[])
       as new(seq, ws, at, author, address, operation, subject, before, after)

-- name: audit_update
with changed as (
    update audit
       set ws = new.ws,
           at = new.at,
           author = new.author,
           address = new.address,
           operation = new.operation,
           subject = new.subject,
           before = new.before,
           after = new.after
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
                  $7::text[], $8::text[], $9::text[])
           as new(seq, ws, at, author, address, operation, subject, before, after)
     where audit.ctid = (
            select found.ctid
              from audit as found
             where found.seq between new.seq and new.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('audit', count(*), cardinality($1))
  from changed

-- name: audit_delete
with gone as (
    delete from audit
     using unnest($1::bigint[])
           as old(seq)
     where audit.ctid = (
            select found.ctid
              from audit as found
             where found.seq between old.seq and old.seq
             order by found.seq
             limit 1
           )
    returning 1
)
select expect_rows('audit', count(*), cardinality($1))
  from gone

-- name: audit_dump
select seq, ws, at, author, address, operation, subject, before, after
  from audit
 order by seq
