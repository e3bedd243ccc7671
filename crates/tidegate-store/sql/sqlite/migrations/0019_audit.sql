-- The audit log: one row for each change by an operator, written with the change. The rows on one
-- subject are the history of an override, newest first, which `undo` reads.
create table audit (
  seq       integer not null primary key,
  ws        text not null,
  at        integer not null,
  author    text,
  address   text,
  operation text not null,
  subject   text not null,
  before    text,
  after     text
) strict;
create index audit_newest on audit (ws, seq);
create index audit_subject on audit (ws, subject, seq);
