-- Derived from src/schema.rs by src/sql/derive.rs.
-- The parameters are the columns in their order; for a read or delete, only those of the key.
-- Reads, updates and deletes use the primary key. The caller checks that an update or delete
-- changed one row; an insert of an existing key fails. SQLite has one writer, so no row is locked:
-- the notes on locks below are for PostgreSQL.
--
-- read    one row by key
-- insert  a row
-- update  all columns of a row; if all columns are in the key, only checks that the row exists
-- delete  one row by key
-- dump    all rows in key order

-- table: reply
-- Rows are locked before they change; two transactions may insert the same key.

-- name: reply_read
select ws, id, seq, at, hash, answer, response
  from reply
 where ws = ?1
   and id = ?2

-- name: reply_insert
insert into reply (ws, id, seq, at, hash, answer, response)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: reply_update
update reply
   set seq = ?3,
       at = ?4,
       hash = ?5,
       answer = ?6,
       response = ?7
 where ws = ?1
   and id = ?2

-- name: reply_delete
delete from reply
 where ws = ?1
   and id = ?2

-- name: reply_dump
select ws, id, seq, at, hash, answer, response
  from reply
 order by ws, id

-- table: api_key
-- Rows are locked before they change.

-- name: api_key_read
select id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at
  from api_key
 where id = ?1

-- name: api_key_insert
insert into api_key (id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: api_key_update
update api_key
   set ws = ?2,
       name = ?3,
       hash = ?4,
       read_only = ?5,
       made_at = ?6,
       expires_at = ?7,
       used_at = ?8,
       revoked_at = ?9
 where id = ?1

-- name: api_key_delete
delete from api_key
 where id = ?1

-- name: api_key_dump
select id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at
  from api_key
 order by id

-- table: chore
-- Rows are locked before they change.

-- name: chore_read
select seq, salt, ws, topic, due, work
  from chore
 where seq = ?1

-- name: chore_insert
insert into chore (seq, salt, ws, topic, due, work)
values (?1, ?2, ?3, ?4, ?5, ?6)

-- name: chore_update
update chore
   set salt = ?2,
       ws = ?3,
       topic = ?4,
       due = ?5,
       work = ?6
 where seq = ?1

-- name: chore_delete
delete from chore
 where seq = ?1

-- name: chore_dump
select seq, salt, ws, topic, due, work
  from chore
 order by seq

-- table: schedule
-- Rows are locked before they change; two transactions may insert the same key.

-- name: schedule_read
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 where ws = ?1
   and app = ?2
   and workflow = ?3
   and id = ?4

-- name: schedule_insert
insert into schedule (ws, app, workflow, id, next, last, outcome, paused_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: schedule_update
update schedule
   set next = ?5,
       last = ?6,
       outcome = ?7,
       paused_at = ?8
 where ws = ?1
   and app = ?2
   and workflow = ?3
   and id = ?4

-- name: schedule_delete
delete from schedule
 where ws = ?1
   and app = ?2
   and workflow = ?3
   and id = ?4

-- name: schedule_dump
select ws, app, workflow, id, next, last, outcome, paused_at
  from schedule
 order by ws, app, workflow, id

-- table: gate
-- Rows are locked before they change; two transactions may insert the same key.

-- name: gate_read
select key, id, at, due, state, event
  from gate
 where key = ?1

-- name: gate_insert
insert into gate (key, id, at, due, state, event)
values (?1, ?2, ?3, ?4, ?5, ?6)

-- name: gate_update
update gate
   set id = ?2,
       at = ?3,
       due = ?4,
       state = ?5,
       event = ?6
 where key = ?1

-- name: gate_delete
delete from gate
 where key = ?1

-- name: gate_dump
select key, id, at, due, state, event
  from gate
 order by key

-- table: run
-- Rows are locked by `run_lock` before they change.

-- name: run_read
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked, listens
  from run
 where seq = ?1

-- name: run_insert
insert into run (seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence,
                 body, event_seq, past, parked, listens)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)

-- name: run_update
update run
   set salt = ?2,
       ws = ?3,
       lane = ?4,
       ready = ?5,
       line = ?6,
       tier = ?7,
       order_at = ?8,
       order_seq = ?9,
       due = ?10,
       owner = ?11,
       fence = ?12,
       body = ?13,
       event_seq = ?14,
       past = ?15,
       parked = ?16,
       listens = ?17
 where seq = ?1

-- name: run_delete
delete from run
 where seq = ?1

-- name: run_dump
select seq, salt, ws, lane, ready, line, tier, order_at, order_seq, due, owner, fence, body,
       event_seq, past, parked, listens
  from run
 order by seq

-- table: session
-- Rows are locked before they change; two transactions may insert the same key.

-- name: session_read
select ws, app, flow, id, version, body
  from session
 where ws = ?1
   and app = ?2
   and flow = ?3
   and id = ?4

-- name: session_insert
insert into session (ws, app, flow, id, version, body)
values (?1, ?2, ?3, ?4, ?5, ?6)

-- name: session_update
update session
   set version = ?5,
       body = ?6
 where ws = ?1
   and app = ?2
   and flow = ?3
   and id = ?4

-- name: session_delete
delete from session
 where ws = ?1
   and app = ?2
   and flow = ?3
   and id = ?4

-- name: session_dump
select ws, app, flow, id, version, body
  from session
 order by ws, app, flow, id

-- table: engine
-- Rows are locked before they change; two transactions may insert the same key.

-- name: engine_read
select id, beat, dead, serves, lease_ms
  from engine
 where id = ?1

-- name: engine_insert
insert into engine (id, beat, dead, serves, lease_ms)
values (?1, ?2, ?3, ?4, ?5)

-- name: engine_update
update engine
   set beat = ?2,
       dead = ?3,
       serves = ?4,
       lease_ms = ?5
 where id = ?1

-- name: engine_delete
delete from engine
 where id = ?1

-- name: engine_dump
select id, beat, dead, serves, lease_ms
  from engine
 order by id

-- table: stream
-- Rows are locked before they change; two transactions may insert the same key.

-- name: stream_read
select ws, name, id, head, closed
  from stream
 where ws = ?1
   and name = ?2

-- name: stream_insert
insert into stream (ws, name, id, head, closed)
values (?1, ?2, ?3, ?4, ?5)

-- name: stream_update
update stream
   set id = ?3,
       head = ?4,
       closed = ?5
 where ws = ?1
   and name = ?2

-- name: stream_delete
delete from stream
 where ws = ?1
   and name = ?2

-- name: stream_dump
select ws, name, id, head, closed
  from stream
 order by ws, name

-- table: sub
-- Rows are locked before they change; two transactions may insert the same key.

-- name: sub_read
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures, claims,
       blocked, log, error
  from sub
 where ws = ?1
   and reaction = ?2
   and stream = ?3

-- name: sub_insert
insert into sub (ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures,
                 claims, blocked, log, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)

-- name: sub_update
update sub
   set work = ?4,
       at = ?5,
       want = ?6,
       owner = ?7,
       fence = ?8,
       until = ?9,
       due = ?10,
       since = ?11,
       failures = ?12,
       claims = ?13,
       blocked = ?14,
       log = ?15,
       error = ?16
 where ws = ?1
   and reaction = ?2
   and stream = ?3

-- name: sub_delete
delete from sub
 where ws = ?1
   and reaction = ?2
   and stream = ?3

-- name: sub_dump
select ws, reaction, stream, work, at, want, owner, fence, until, due, since, failures, claims,
       blocked, log, error
  from sub
 order by ws, reaction, stream

-- table: log_head
-- Rows are locked before they change; two transactions may insert the same key.

-- name: log_head_read
select ws, pos
  from log_head
 where ws = ?1

-- name: log_head_insert
insert into log_head (ws, pos)
values (?1, ?2)

-- name: log_head_update
update log_head
   set pos = ?2
 where ws = ?1

-- name: log_head_delete
delete from log_head
 where ws = ?1

-- name: log_head_dump
select ws, pos
  from log_head
 order by ws

-- table: epoch
-- Rows are changed under the latch of their workspace; two transactions may insert the same key.

-- name: epoch_read
select ws, n
  from epoch
 where ws = ?1

-- name: epoch_insert
insert into epoch (ws, n)
values (?1, ?2)

-- name: epoch_update
update epoch
   set n = ?2
 where ws = ?1

-- name: epoch_delete
delete from epoch
 where ws = ?1

-- name: epoch_dump
select ws, n
  from epoch
 order by ws

-- table: def
-- Rows are changed under the latch of their workspace.

-- name: def_read
select lane, ws, app, name, version, body, released, assigned, deployed
  from def
 where lane = ?1

-- name: def_insert
insert into def (lane, ws, app, name, version, body, released, assigned, deployed)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: def_update
update def
   set ws = ?2,
       app = ?3,
       name = ?4,
       version = ?5,
       body = ?6,
       released = ?7,
       assigned = ?8,
       deployed = ?9
 where lane = ?1

-- name: def_delete
delete from def
 where lane = ?1

-- name: def_dump
select lane, ws, app, name, version, body, released, assigned, deployed
  from def
 order by lane

-- table: event
-- Rows are changed under the lock of the row that owns them.

-- name: event_read
select seq, salt, ws, kind, name, at, ts, data, delivery, attributes
  from event
 where seq = ?1

-- name: event_insert
insert into event (seq, salt, ws, kind, name, at, ts, data, delivery, attributes)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: event_update
update event
   set salt = ?2,
       ws = ?3,
       kind = ?4,
       name = ?5,
       at = ?6,
       ts = ?7,
       data = ?8,
       delivery = ?9,
       attributes = ?10
 where seq = ?1

-- name: event_delete
delete from event
 where seq = ?1

-- name: event_dump
select seq, salt, ws, kind, name, at, ts, data, delivery, attributes
  from event
 order by seq

-- table: ended
-- Rows are changed under the lock of the row that owns them.

-- name: ended_read
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body, lane
  from ended
 where seq = ?1

-- name: ended_insert
insert into ended (seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq,
                   body, lane)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)

-- name: ended_update
update ended
   set salt = ?2,
       ws = ?3,
       app = ?4,
       workflow = ?5,
       version = ?6,
       state = ?7,
       queued_at = ?8,
       ended_at = ?9,
       event_seq = ?10,
       body = ?11,
       lane = ?12
 where seq = ?1

-- name: ended_delete
delete from ended
 where seq = ?1

-- name: ended_dump
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body, lane
  from ended
 order by seq

-- table: step
-- Rows are changed under the lock of the row that owns them.

-- name: step_read
select run, id, kind, fence, at, ok, out, seq
  from step
 where run = ?1
   and id = ?2

-- name: step_insert
insert into step (run, id, kind, fence, at, ok, out, seq)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: step_update
update step
   set kind = ?3,
       fence = ?4,
       at = ?5,
       ok = ?6,
       out = ?7,
       seq = ?8
 where run = ?1
   and id = ?2

-- name: step_delete
delete from step
 where run = ?1
   and id = ?2

-- name: step_dump
select run, id, kind, fence, at, ok, out, seq
  from step
 order by run, id

-- table: item
-- Rows are changed under the lock of the row that owns them.

-- name: item_read
select run, n, event_seq, event_salt
  from item
 where run = ?1
   and n = ?2

-- name: item_insert
insert into item (run, n, event_seq, event_salt)
values (?1, ?2, ?3, ?4)

-- name: item_update
update item
   set event_seq = ?3,
       event_salt = ?4
 where run = ?1
   and n = ?2

-- name: item_delete
delete from item
 where run = ?1
   and n = ?2

-- name: item_dump
select run, n, event_seq, event_salt
  from item
 order by run, n

-- table: wait
-- Rows are changed under the lock of the row that owns them.

-- name: wait_read
select ws, name, path, value, run, step
  from wait
 where ws = ?1
   and name = ?2
   and path = ?3
   and value = ?4
   and run = ?5
   and step = ?6

-- name: wait_insert
insert into wait (ws, name, path, value, run, step)
values (?1, ?2, ?3, ?4, ?5, ?6)

-- name: wait_update
update wait
   set step = ?6
 where ws = ?1
   and name = ?2
   and path = ?3
   and value = ?4
   and run = ?5
   and step = ?6

-- name: wait_delete
delete from wait
 where ws = ?1
   and name = ?2
   and path = ?3
   and value = ?4
   and run = ?5
   and step = ?6

-- name: wait_dump
select ws, name, path, value, run, step
  from wait
 order by ws, name, path, value, run, step

-- table: wait_path
-- Rows are changed under the lock of the row that owns them; two transactions may insert the same key.

-- name: wait_path_read
select ws, name, path
  from wait_path
 where ws = ?1
   and name = ?2
   and path = ?3

-- name: wait_path_insert
insert into wait_path (ws, name, path)
values (?1, ?2, ?3)

-- name: wait_path_update
update wait_path
   set path = ?3
 where ws = ?1
   and name = ?2
   and path = ?3

-- name: wait_path_delete
delete from wait_path
 where ws = ?1
   and name = ?2
   and path = ?3

-- name: wait_path_dump
select ws, name, path
  from wait_path
 order by ws, name, path

-- table: signal
-- Rows are changed under the lock of the row that owns them.

-- name: signal_read
select run, name, seq, data
  from signal
 where run = ?1
   and name = ?2
   and seq = ?3

-- name: signal_insert
insert into signal (run, name, seq, data)
values (?1, ?2, ?3, ?4)

-- name: signal_update
update signal
   set data = ?4
 where run = ?1
   and name = ?2
   and seq = ?3

-- name: signal_delete
delete from signal
 where run = ?1
   and name = ?2
   and seq = ?3

-- name: signal_dump
select run, name, seq, data
  from signal
 order by run, name, seq

-- table: receipt
-- Rows are changed under the lock of the row that owns them.

-- name: receipt_read
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 where seq = ?1

-- name: receipt_insert
insert into receipt (seq, ws, app, workflow, key, event, at, verdict)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: receipt_update
update receipt
   set ws = ?2,
       app = ?3,
       workflow = ?4,
       key = ?5,
       event = ?6,
       at = ?7,
       verdict = ?8
 where seq = ?1

-- name: receipt_delete
delete from receipt
 where seq = ?1

-- name: receipt_dump
select seq, ws, app, workflow, key, event, at, verdict
  from receipt
 order by seq

-- table: log
-- Rows are changed under the lock of the row that owns them.

-- name: log_read
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 where stream = ?1
   and version = ?2

-- name: log_insert
insert into log (stream, version, ws, pos, seq, salt, name, at, data, meta)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: log_update
update log
   set ws = ?3,
       pos = ?4,
       seq = ?5,
       salt = ?6,
       name = ?7,
       at = ?8,
       data = ?9,
       meta = ?10
 where stream = ?1
   and version = ?2

-- name: log_delete
delete from log
 where stream = ?1
   and version = ?2

-- name: log_dump
select stream, version, ws, pos, seq, salt, name, at, data, meta
  from log
 order by stream, version

-- table: chunk
-- Rows are changed under the lock of the row that owns them.

-- name: chunk_read
select run, step, attempt, n, seq, data
  from chunk
 where run = ?1
   and step = ?2
   and attempt = ?3
   and n = ?4

-- name: chunk_insert
insert into chunk (run, step, attempt, n, seq, data)
values (?1, ?2, ?3, ?4, ?5, ?6)

-- name: chunk_update
update chunk
   set seq = ?5,
       data = ?6
 where run = ?1
   and step = ?2
   and attempt = ?3
   and n = ?4

-- name: chunk_delete
delete from chunk
 where run = ?1
   and step = ?2
   and attempt = ?3
   and n = ?4

-- name: chunk_dump
select run, step, attempt, n, seq, data
  from chunk
 order by run, step, attempt, n

-- table: staged
-- Rows are changed under the lock of the row that owns them.

-- name: staged_read
select run, n, app, flow, id, op, version, seen
  from staged
 where run = ?1
   and n = ?2

-- name: staged_insert
insert into staged (run, n, app, flow, id, op, version, seen)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: staged_update
update staged
   set app = ?3,
       flow = ?4,
       id = ?5,
       op = ?6,
       version = ?7,
       seen = ?8
 where run = ?1
   and n = ?2

-- name: staged_delete
delete from staged
 where run = ?1
   and n = ?2

-- name: staged_dump
select run, n, app, flow, id, op, version, seen
  from staged
 order by run, n

-- table: snapshot
-- Rows are changed under the lock of the row that owns them.

-- name: snapshot_read
select stream, kind, version, body
  from snapshot
 where stream = ?1
   and kind = ?2

-- name: snapshot_insert
insert into snapshot (stream, kind, version, body)
values (?1, ?2, ?3, ?4)

-- name: snapshot_update
update snapshot
   set version = ?3,
       body = ?4
 where stream = ?1
   and kind = ?2

-- name: snapshot_delete
delete from snapshot
 where stream = ?1
   and kind = ?2

-- name: snapshot_dump
select stream, kind, version, body
  from snapshot
 order by stream, kind

-- table: audit
-- Rows are changed under the lock of the row that owns them.

-- name: audit_read
select seq, ws, at, author, address, operation, subject, before, after
  from audit
 where seq = ?1

-- name: audit_insert
insert into audit (seq, ws, at, author, address, operation, subject, before, after)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: audit_update
update audit
   set ws = ?2,
       at = ?3,
       author = ?4,
       address = ?5,
       operation = ?6,
       subject = ?7,
       before = ?8,
       after = ?9
 where seq = ?1

-- name: audit_delete
delete from audit
 where seq = ?1

-- name: audit_dump
select seq, ws, at, author, address, operation, subject, before, after
  from audit
 order by seq
