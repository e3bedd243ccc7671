-- The schema after all migrations. Checked by a test.

CREATE TABLE api_key (
  id         text    not null,
  ws         text    not null,
  name       text    not null,
  hash       text    not null,
  read_only  integer not null,
  made_at    integer not null,
  expires_at integer,
  used_at    integer,
  revoked_at integer,
  primary key (id)
) strict, without rowid;

CREATE TABLE audit (
  seq       integer not null primary key,
  ws        text not null,
  at        integer not null,
  author    text,
  address   text,
  operation text not null,
  subject   text not null,
  before    text,
  after     text
) strict;

CREATE TABLE chore (
  seq   integer not null primary key,
  salt  integer not null,
  ws    text    not null,
  topic text,
  due   integer,
  work  text    not null
) strict;

CREATE TABLE chunk (
  run     integer not null,
  step    text    not null,
  attempt integer not null,
  n       integer not null,
  seq     integer not null,
  data    text    not null,
  primary key (run, step, attempt, n)
) strict, without rowid;

CREATE TABLE def (
  lane     integer not null primary key,
  ws       text    not null,
  app      text    not null,
  name     text    not null,
  version  integer not null,
  body     text    not null,
  released integer, assigned integer, deployed integer not null default 0,
  unique (ws, app, name, version)
) strict;

CREATE TABLE ended (
  seq       integer not null primary key,
  salt      integer not null,
  ws        text    not null,
  app       text    not null,
  workflow  text    not null,
  version   integer not null,
  state     text    not null,
  queued_at integer not null,
  ended_at  integer not null,
  event_seq integer not null,
  body      text    not null
, lane integer not null default 0) strict;

CREATE TABLE engine (
  id   text    not null primary key,
  beat integer not null,
  dead integer not null
, serves text not null default '[]', lease_ms integer) strict, without rowid;

CREATE TABLE epoch (
  ws text    not null primary key,
  n  integer not null
) strict, without rowid;

CREATE TABLE event (
  seq  integer not null primary key,
  salt integer not null,
  ws   text    not null,
  kind text    not null,
  name text    not null,
  at   integer not null,
  ts   integer,
  data text    not null
, delivery text, attributes text) strict;

CREATE TABLE gate (
  key   blob    not null primary key,
  id    integer not null,
  at    integer not null,
  due   integer,
  state text    not null
, event integer) strict;

CREATE TABLE item (
  run        integer not null,
  n          integer not null,
  event_seq  integer not null,
  event_salt integer not null,
  primary key (run, n)
) strict, without rowid;

CREATE TABLE lease (
  name   text    not null primary key,
  holder text    not null,
  fence  integer not null,
  until  integer not null
) strict, without rowid;

CREATE TABLE log (
  stream  integer not null,
  version integer not null,
  ws      text    not null,
  pos     integer not null,
  seq     integer not null,
  salt    integer not null,
  name    text    not null,
  at      integer not null,
  data    text    not null,
  meta    text    not null,
  primary key (stream, version),
  unique (ws, pos)
) strict;

CREATE TABLE log_head (
  ws  text    not null primary key,
  pos integer not null
) strict, without rowid;

CREATE TABLE meta (
  name  text    not null primary key,
  value integer not null
) strict, without rowid;

CREATE TABLE migration (
  version  integer not null primary key,
  name     text    not null,
  checksum text    not null,
  at       integer not null
) strict;

CREATE TABLE receipt (
  seq      integer not null primary key,
  ws       text    not null,
  app      text    not null,
  workflow text    not null,
  key      text    not null,
  event    integer not null,
  at       integer not null,
  verdict  text    not null
) strict;

CREATE TABLE reply (
  ws       text    not null,
  id       text    not null,
  seq      integer not null,
  at       integer not null,
  hash     text    not null,
  answer   text,
  response text,
  primary key (ws, id)
) strict, without rowid;

CREATE TABLE run (
  seq       integer not null primary key,
  salt      integer not null,
  ws        text    not null,
  lane      integer not null,
  ready     integer,
  line      integer,
  tier      integer not null,
  order_at  integer not null,
  order_seq integer not null,
  due       integer,
  owner     text,
  fence     integer not null,
  body      text    not null
, event_seq integer, past integer, parked text, listens integer) strict;

CREATE TABLE schedule (
  ws       text    not null,
  app      text    not null,
  workflow text    not null,
  id       text    not null,
  next     integer,
  last     integer, outcome text, paused_at integer,
  primary key (ws, app, workflow, id)
) strict, without rowid;

CREATE TABLE session (
  ws      text    not null,
  app     text    not null,
  flow    text    not null,
  id      text    not null,
  version integer not null,
  body    text    not null,
  primary key (ws, app, flow, id)
) strict;

CREATE TABLE signal (
  run  integer not null,
  name text    not null,
  seq  integer not null,
  data text    not null,
  primary key (run, name, seq)
) strict;

CREATE TABLE snapshot (
  stream  integer not null,
  kind    text    not null,
  version integer not null,
  body    text    not null,
  primary key (stream, kind)
) strict, without rowid;

CREATE TABLE staged (
  run     integer not null,
  n       integer not null,
  app     text    not null,
  flow    text    not null,
  id      text    not null,
  op      text    not null,
  version integer not null,
  seen    text,
  primary key (run, n)
) strict;

CREATE TABLE step (
  run   integer not null,
  id    text    not null,
  kind  text    not null,
  fence integer not null,
  at    integer not null,
  ok    integer not null,
  out   text    not null, seq integer not null default 0,
  primary key (run, id)
) strict;

CREATE TABLE stream (
  ws     text    not null,
  name   text    not null,
  id     integer not null,
  head   integer not null,
  closed integer not null,
  primary key (ws, name)
) strict, without rowid;

CREATE TABLE sub (
  ws       text    not null,
  reaction text    not null,
  stream   text    not null,
  work     integer,
  at       integer not null,
  want     integer not null,
  owner    text,
  fence    integer not null,
  until    integer,
  due      integer,
  since    integer not null,
  failures integer not null,
  claims   integer not null,
  blocked  text,
  log      integer not null,
  error    text,
  primary key (ws, reaction, stream)
) strict, without rowid;

CREATE TABLE wait (
  ws    text    not null,
  name  text    not null,
  path  text    not null,
  value blob    not null,
  run   integer not null,
  step  text    not null,
  primary key (ws, name, path, value, run, step)
) strict, without rowid;

CREATE TABLE wait_path (
  ws   text not null,
  name text not null,
  path text not null,
  primary key (ws, name, path)
) strict, without rowid;

CREATE INDEX audit_newest on audit (ws, seq);

CREATE INDEX audit_subject on audit (ws, subject, seq);

CREATE INDEX chore_due on chore (due, seq) where due is not null;

CREATE INDEX chore_topic on chore (ws, topic, seq) where topic is not null;

CREATE INDEX chunk_run on chunk (run, seq);

CREATE INDEX ended_far on ended (event_seq) where abs((event_seq >> 12) - (seq >> 12)) > 1;

CREATE INDEX ended_lane on ended (lane, state, seq);

CREATE INDEX event_newest on event (ws, seq) where kind = 'event';

CREATE INDEX gate_due on gate (due, key) where due is not null;

CREATE INDEX gate_event on gate (event) where event is not null;

CREATE INDEX gate_window on gate (id) where event is not null;

CREATE INDEX item_event on item (event_seq);

CREATE INDEX receipt_event on receipt (event, seq);

CREATE INDEX receipt_newest on receipt (ws, seq);

CREATE INDEX reply_seq on reply (seq);

CREATE INDEX run_due on run (due, seq) where due is not null;

CREATE INDEX run_far on run (event_seq) where abs((event_seq >> 12) - (seq >> 12)) > 1;

CREATE INDEX run_lane on run (lane, seq);

CREATE INDEX run_line on run (line, tier, order_at, order_seq, seq) where line is not null;

CREATE INDEX run_listens on run (listens) where listens is not null;

CREATE INDEX run_owner on run (owner, seq, lane) where owner is not null;

CREATE INDEX run_parked on run (lane, parked) where parked is not null;

CREATE INDEX run_past on run (past) where past is not null;

CREATE INDEX run_ready on run (ws, ready, lane, order_at, order_seq, seq) where ready is not null;

CREATE INDEX schedule_next on schedule (next, ws, app, workflow, id) where next is not null;

CREATE INDEX stream_id on stream (id);

CREATE INDEX sub_work on sub (ws, reaction, work, stream) where work is not null;
