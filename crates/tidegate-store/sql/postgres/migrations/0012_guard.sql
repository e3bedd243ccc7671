-- Who may ask, and what those were told who ask again under the same idempotency key.
create table reply (
  ws       text collate "C" not null,
  id       text collate "C" not null,
  seq      bigint not null,
  at       bigint not null,
  hash     text collate "C" not null,
  answer   text collate "C",
  response text collate "C",
  primary key (ws, id)
);
create index reply_seq on reply (seq);
create table api_key (
  id         text collate "C" not null,
  ws         text collate "C" not null,
  name       text collate "C" not null,
  hash       text collate "C" not null,
  read_only  bigint not null,
  made_at    bigint not null,
  expires_at bigint,
  used_at    bigint,
  revoked_at bigint,
  primary key (id)
);
