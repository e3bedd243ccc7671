-- The tables, in lock order. Names and columns are those of src/codec.rs, in both dialects.
--
-- Times are microseconds, flags 0 or 1, text compares by bytes. Hot tables have no foreign keys,
-- and room in their pages for updates that touch no index. A row is in a hot index while the
-- index's column is not null, never because of a state in its predicate (R19).
-- Columns that only an index needs (run.ready, run.line, sub.work, …) are derived by the codec.

-- A transaction draws a block of 4096 numbers; see tx_stamp.
create sequence block increment by 4096 start with 4096 cache 1;

-- This moment in microseconds, or what the setting says where a test has its own clock.
create function clock()
returns bigint
language sql
as $$
select coalesce(nullif(current_setting('tidegate.clock', true), '')::bigint,
                (extract(epoch from clock_timestamp()) * 1000000)::bigint)
$$;

-- Raises an error unless a write changed as many rows as it should have (R2).
create function expect_rows(place text, changed bigint, wanted bigint)
returns bigint
language plpgsql
as $$
begin
  if changed <> wanted then
    raise exception using
      errcode = 'TG002',
      message = format('%s: %s rows should have changed, %s did', place, wanted, changed);
  end if;
  return changed;
end
$$;

create table gate (
  key   bytea not null primary key,
  id    bigint not null,
  at    bigint not null,
  due   bigint,
  state text collate "C" not null
) with (fillfactor = 80);
create index gate_due on gate (due, key) where due is not null;

create table run (
  seq       bigint not null primary key,
  salt      bigint not null,
  ws        text collate "C" not null,
  lane      bigint not null,
  ready     bigint,
  line      bigint,
  tier      bigint not null,
  order_at  bigint not null,
  order_seq bigint not null,
  due       bigint,
  owner     text collate "C",
  fence     bigint not null,
  body      text collate "C" not null
) with (fillfactor = 80);
create index run_ready on run (ready, order_at, order_seq, seq) where ready is not null;
create index run_line on run (line, tier, order_at, order_seq, seq) where line is not null;
create index run_due on run (due, seq) where due is not null;
create index run_owner on run (owner, seq) where owner is not null;
create index run_lane on run (lane, seq);

create table engine (
  id   text collate "C" not null primary key,
  beat bigint not null,
  dead bigint not null
) with (fillfactor = 50);

create table stream (
  ws     text collate "C" not null,
  name   text collate "C" not null,
  id     bigint not null,
  head   bigint not null,
  closed bigint not null,
  primary key (ws, name)
) with (fillfactor = 80);

create table sub (
  ws       text collate "C" not null,
  reaction text collate "C" not null,
  stream   text collate "C" not null,
  work     bigint,
  at       bigint not null,
  want     bigint not null,
  owner    text collate "C",
  fence    bigint not null,
  until    bigint,
  due      bigint,
  since    bigint not null,
  failures bigint not null,
  claims   bigint not null,
  blocked  text collate "C",
  log      bigint not null,
  error    text collate "C",
  primary key (ws, reaction, stream)
) with (fillfactor = 80);
create index sub_work on sub (ws, reaction, work, stream) where work is not null;

create table log_head (
  ws  text collate "C" not null primary key,
  pos bigint not null
) with (fillfactor = 50);

create table epoch (
  ws text collate "C" not null primary key,
  n  bigint not null
) with (fillfactor = 50);

create table def (
  lane     bigint not null primary key,
  ws       text collate "C" not null,
  app      text collate "C" not null,
  name     text collate "C" not null,
  version  bigint not null,
  body     text collate "C" not null,
  released bigint,
  unique (ws, app, name, version)
);

create table event (
  seq  bigint not null primary key,
  salt bigint not null,
  ws   text collate "C" not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  at   bigint not null,
  ts   bigint,
  data text collate "C" not null
);

create table ended (
  seq       bigint not null primary key,
  salt      bigint not null,
  ws        text collate "C" not null,
  app       text collate "C" not null,
  workflow  text collate "C" not null,
  version   bigint not null,
  state     text collate "C" not null,
  queued_at bigint not null,
  ended_at  bigint not null,
  event_seq bigint not null,
  body      text collate "C" not null
);

create table step (
  run   bigint not null,
  id    text collate "C" not null,
  kind  text collate "C" not null,
  fence bigint not null,
  at    bigint not null,
  ok    bigint not null,
  out   text collate "C" not null,
  primary key (run, id)
);

create table item (
  run        bigint not null,
  n          bigint not null,
  event_seq  bigint not null,
  event_salt bigint not null,
  primary key (run, n)
);

create table wait (
  ws    text collate "C" not null,
  name  text collate "C" not null,
  path  text collate "C" not null,
  value bytea not null,
  run   bigint not null,
  step  text collate "C" not null,
  primary key (ws, name, path, value, run, step)
);

create table wait_path (
  ws   text collate "C" not null,
  name text collate "C" not null,
  path text collate "C" not null,
  primary key (ws, name, path)
);

create table signal (
  run  bigint not null,
  name text collate "C" not null,
  seq  bigint not null,
  data text collate "C" not null,
  primary key (run, name, seq)
);

create table receipt (
  seq      bigint not null primary key,
  ws       text collate "C" not null,
  app      text collate "C" not null,
  workflow text collate "C" not null,
  key      text collate "C" not null,
  event    bigint not null,
  at       bigint not null,
  verdict  text collate "C" not null
);
create index receipt_event on receipt (event, seq);

create table log (
  stream  bigint not null,
  version bigint not null,
  ws      text collate "C" not null,
  pos     bigint not null,
  seq     bigint not null,
  salt    bigint not null,
  name    text collate "C" not null,
  at      bigint not null,
  data    text collate "C" not null,
  meta    text collate "C" not null,
  primary key (stream, version),
  unique (ws, pos)
);
