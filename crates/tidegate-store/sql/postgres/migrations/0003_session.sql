-- The state of sessions, and what runs under `restart` have staged for them.

create table session (
  ws      text collate "C" not null,
  app     text collate "C" not null,
  flow    text collate "C" not null,
  id      text collate "C" not null,
  version bigint not null,
  body    text collate "C" not null,
  primary key (ws, app, flow, id)
) with (fillfactor = 80);

create table staged (
  run     bigint not null,
  n       bigint not null,
  app     text collate "C" not null,
  flow    text collate "C" not null,
  id      text collate "C" not null,
  op      text collate "C" not null,
  version bigint not null,
  seen    text collate "C",
  primary key (run, n)
);
