-- The schema after all migrations. Checked by a test.

create sequence block increment by 4096 start with 4096 cache 1;

create sequence lease_fence increment by 1 start with 1 cache 1;

create function clock()
returns bigint
language sql
as $$
select coalesce(nullif(current_setting('tidegate.clock', true), '')::bigint,
                (extract(epoch from clock_timestamp()) * 1000000)::bigint)
$$;

create function expect_rows(place text, changed bigint, wanted bigint)
returns bigint
language plpgsql
as $$
begin
  if changed <> wanted then
    raise exception using
      errcode = 'TG002',
      table = place,
      message = format('%s: %s rows should have changed, %s did', place, wanted, changed);
  end if;
  return changed;
end
$$;

create table api_key (
  id text collate "C" not null,
  ws text collate "C" not null,
  name text collate "C" not null,
  hash text collate "C" not null,
  read_only bigint not null,
  made_at bigint not null,
  expires_at bigint,
  used_at bigint,
  revoked_at bigint,
  primary key (id)
);

create table audit (
  seq bigint not null,
  ws text collate "C" not null,
  at bigint not null,
  author text collate "C",
  address text collate "C",
  operation text collate "C" not null,
  subject text collate "C" not null,
  before text collate "C",
  after text collate "C",
  primary key (seq)
);

create table chore (
  seq bigint not null,
  salt bigint not null,
  ws text collate "C" not null,
  topic text collate "C",
  due bigint,
  work text collate "C" not null,
  primary key (seq)
) with (fillfactor=80);

create table chunk (
  run bigint not null,
  step text collate "C" not null,
  attempt bigint not null,
  n bigint not null,
  seq bigint not null,
  data text collate "C" not null,
  primary key (run, step, attempt, n)
);

create table def (
  lane bigint not null,
  ws text collate "C" not null,
  app text collate "C" not null,
  name text collate "C" not null,
  version bigint not null,
  body text collate "C" not null,
  released bigint,
  assigned bigint,
  deployed bigint not null default 0,
  primary key (lane),
  unique (ws, app, name, version)
);

create table ended (
  seq bigint not null,
  salt bigint not null,
  ws text collate "C" not null,
  app text collate "C" not null,
  workflow text collate "C" not null,
  version bigint not null,
  state text collate "C" not null,
  queued_at bigint not null,
  ended_at bigint not null,
  event_seq bigint not null,
  body text collate "C" not null,
  lane bigint not null default 0,
  primary key (seq)
);

create table engine (
  id text collate "C" not null,
  beat bigint not null,
  dead bigint not null,
  serves text collate "C" not null default '[]'::text,
  lease_ms bigint,
  primary key (id)
) with (fillfactor=50);

create table epoch (
  ws text collate "C" not null,
  n bigint not null,
  primary key (ws)
) with (fillfactor=50);

create table event (
  seq bigint not null,
  salt bigint not null,
  ws text collate "C" not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  at bigint not null,
  ts bigint,
  data text collate "C" not null,
  delivery text collate "C",
  attributes text collate "C",
  primary key (seq)
);

create table gate (
  key bytea not null,
  id bigint not null,
  at bigint not null,
  due bigint,
  state text collate "C" not null,
  event bigint,
  primary key (key)
) with (fillfactor=80);

create table item (
  run bigint not null,
  n bigint not null,
  event_seq bigint not null,
  event_salt bigint not null,
  primary key (run, n)
);

create table lease (
  name text collate "C" not null,
  holder text collate "C" not null,
  fence bigint not null,
  until bigint not null,
  primary key (name)
) with (fillfactor=80);

create table log (
  stream bigint not null,
  version bigint not null,
  ws text collate "C" not null,
  pos bigint not null,
  seq bigint not null,
  salt bigint not null,
  name text collate "C" not null,
  at bigint not null,
  data text collate "C" not null,
  meta text collate "C" not null,
  primary key (stream, version),
  unique (ws, pos)
);

create table log_head (
  ws text collate "C" not null,
  pos bigint not null,
  primary key (ws)
) with (fillfactor=50);

create table migration (
  version bigint not null,
  name text not null,
  checksum text not null,
  at timestamp with time zone not null default clock_timestamp(),
  primary key (version)
);

create table receipt (
  seq bigint not null,
  ws text collate "C" not null,
  app text collate "C" not null,
  workflow text collate "C" not null,
  key text collate "C" not null,
  event bigint not null,
  at bigint not null,
  verdict text collate "C" not null,
  primary key (seq)
);

create table reply (
  ws text collate "C" not null,
  id text collate "C" not null,
  seq bigint not null,
  at bigint not null,
  hash text collate "C" not null,
  answer text collate "C",
  response text collate "C",
  primary key (ws, id)
);

create table run (
  seq bigint not null,
  salt bigint not null,
  ws text collate "C" not null,
  lane bigint not null,
  ready bigint,
  line bigint,
  tier bigint not null,
  order_at bigint not null,
  order_seq bigint not null,
  due bigint,
  owner text collate "C",
  fence bigint not null,
  body text collate "C" not null,
  event_seq bigint,
  past bigint,
  parked text collate "C",
  listens bigint,
  primary key (seq)
) with (fillfactor=80);

create table schedule (
  ws text collate "C" not null,
  app text collate "C" not null,
  workflow text collate "C" not null,
  id text collate "C" not null,
  next bigint,
  last bigint,
  outcome text collate "C",
  paused_at bigint,
  primary key (ws, app, workflow, id)
) with (fillfactor=80);

create table session (
  ws text collate "C" not null,
  app text collate "C" not null,
  flow text collate "C" not null,
  id text collate "C" not null,
  version bigint not null,
  body text collate "C" not null,
  primary key (ws, app, flow, id)
) with (fillfactor=80);

create table signal (
  run bigint not null,
  name text collate "C" not null,
  seq bigint not null,
  data text collate "C" not null,
  primary key (run, name, seq)
);

create table snapshot (
  stream bigint not null,
  kind text collate "C" not null,
  version bigint not null,
  body text collate "C" not null,
  primary key (stream, kind)
);

create table staged (
  run bigint not null,
  n bigint not null,
  app text collate "C" not null,
  flow text collate "C" not null,
  id text collate "C" not null,
  op text collate "C" not null,
  version bigint not null,
  seen text collate "C",
  primary key (run, n)
);

create table step (
  run bigint not null,
  id text collate "C" not null,
  kind text collate "C" not null,
  fence bigint not null,
  at bigint not null,
  ok bigint not null,
  out text collate "C" not null,
  seq bigint not null default 0,
  primary key (run, id)
);

create table stream (
  ws text collate "C" not null,
  name text collate "C" not null,
  id bigint not null,
  head bigint not null,
  closed bigint not null,
  primary key (ws, name)
) with (fillfactor=80);

create table sub (
  ws text collate "C" not null,
  reaction text collate "C" not null,
  stream text collate "C" not null,
  work bigint,
  at bigint not null,
  want bigint not null,
  owner text collate "C",
  fence bigint not null,
  until bigint,
  due bigint,
  since bigint not null,
  failures bigint not null,
  claims bigint not null,
  blocked text collate "C",
  log bigint not null,
  error text collate "C",
  primary key (ws, reaction, stream)
) with (fillfactor=80);

create table tx_token (
  id bigint not null,
  token bigint not null,
  closed bigint not null,
  at timestamp with time zone not null,
  primary key (id)
) with (fillfactor=50);

create table wait (
  ws text collate "C" not null,
  name text collate "C" not null,
  path text collate "C" not null,
  value bytea not null,
  run bigint not null,
  step text collate "C" not null,
  primary key (ws, name, path, value, run, step)
);

create table wait_path (
  ws text collate "C" not null,
  name text collate "C" not null,
  path text collate "C" not null,
  primary key (ws, name, path)
);

CREATE INDEX audit_newest ON audit USING btree (ws, seq);

CREATE INDEX audit_subject ON audit USING btree (ws, subject, seq);

CREATE INDEX chore_due ON chore USING btree (due, seq) WHERE due IS NOT NULL;

CREATE INDEX chore_topic ON chore USING btree (ws, topic, seq) WHERE topic IS NOT NULL;

CREATE INDEX chunk_run ON chunk USING btree (run, seq);

CREATE INDEX ended_far ON ended USING btree (event_seq) WHERE abs((event_seq >> 12) - (seq >> 12)) > 1;

CREATE INDEX ended_lane ON ended USING btree (lane, state, seq);

CREATE INDEX event_newest ON event USING btree (ws, seq) WHERE kind = 'event'::text;

CREATE INDEX gate_due ON gate USING btree (due, key) WHERE due IS NOT NULL;

CREATE INDEX gate_event ON gate USING btree (event) WHERE event IS NOT NULL;

CREATE INDEX gate_window ON gate USING btree (id) WHERE event IS NOT NULL;

CREATE INDEX item_event ON item USING btree (event_seq);

CREATE INDEX receipt_event ON receipt USING btree (event, seq);

CREATE INDEX receipt_newest ON receipt USING btree (ws, seq);

CREATE INDEX reply_seq ON reply USING btree (seq);

CREATE INDEX run_due ON run USING btree (due, seq) WHERE due IS NOT NULL;

CREATE INDEX run_far ON run USING btree (event_seq) WHERE abs((event_seq >> 12) - (seq >> 12)) > 1;

CREATE INDEX run_lane ON run USING btree (lane, seq);

CREATE INDEX run_line ON run USING btree (line, tier, order_at, order_seq, seq) WHERE line IS NOT NULL;

CREATE INDEX run_listens ON run USING btree (listens, seq) WHERE listens IS NOT NULL;

CREATE INDEX run_owner ON run USING btree (owner, seq, lane) WHERE owner IS NOT NULL;

CREATE INDEX run_parked ON run USING btree (lane, parked) WHERE parked IS NOT NULL;

CREATE INDEX run_past ON run USING btree (past) WHERE past IS NOT NULL;

CREATE INDEX run_ready ON run USING btree (ws, ready, lane, order_at, order_seq, seq) WHERE ready IS NOT NULL;

CREATE INDEX schedule_next ON schedule USING btree (next, ws, app, workflow, id) WHERE next IS NOT NULL;

CREATE INDEX stream_id ON stream USING btree (id);

CREATE INDEX sub_work ON sub USING btree (ws, reaction, work, stream) WHERE work IS NOT NULL;
