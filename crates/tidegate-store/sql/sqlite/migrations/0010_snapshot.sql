-- What streams have come to, so that a long one is not folded from its start; and the way from an
-- event, which says only its stream's number, to the stream.
create table snapshot (
  stream  integer not null,
  kind    text    not null,
  version integer not null,
  body    text    not null,
  primary key (stream, kind)
) strict, without rowid;
create index stream_id on stream (id);
