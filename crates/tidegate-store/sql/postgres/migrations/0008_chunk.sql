-- Streamed output: what a run emits while it is driven, in order.
create table chunk (
  run     bigint not null,
  step    text collate "C" not null,
  attempt bigint not null,
  n       bigint not null,
  seq     bigint not null,
  data    text collate "C" not null,
  primary key (run, step, attempt, n)
);
create index chunk_run on chunk (run, seq);
