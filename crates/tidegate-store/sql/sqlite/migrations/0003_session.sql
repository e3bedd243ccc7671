-- The state of sessions, and what runs under `restart` have staged for them.

create table session (
  ws      text    not null,
  app     text    not null,
  flow    text    not null,
  id      text    not null,
  version integer not null,
  body    text    not null,
  primary key (ws, app, flow, id)
) strict;

create table staged (
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
