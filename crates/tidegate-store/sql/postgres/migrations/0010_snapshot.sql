-- What streams have come to, so that a long one is not folded from its start; and the way from an
-- event, which says only its stream's number, to the stream.
create table snapshot (
  stream  bigint not null,
  kind    text collate "C" not null,
  version bigint not null,
  body    text collate "C" not null,
  primary key (stream, kind)
);
create index stream_id on stream (id);
