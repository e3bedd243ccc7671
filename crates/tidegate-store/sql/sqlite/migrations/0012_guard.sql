-- Who may ask, and what those were told who ask again under the same idempotency key.
create table reply (
  ws       text    not null,
  id       text    not null,
  seq      integer not null,
  at       integer not null,
  hash     text    not null,
  answer   text,
  response text,
  primary key (ws, id)
) strict, without rowid;
create index reply_seq on reply (seq);
create table api_key (
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
