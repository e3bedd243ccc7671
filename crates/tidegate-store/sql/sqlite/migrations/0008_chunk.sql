-- Streamed output: what a run emits while it is driven, in order.
create table chunk (
  run     integer not null,
  step    text    not null,
  attempt integer not null,
  n       integer not null,
  seq     integer not null,
  data    text    not null,
  primary key (run, step, attempt, n)
) strict, without rowid;
create index chunk_run on chunk (run, seq);
