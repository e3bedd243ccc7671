-- The audit log: one row for each change by an operator, written with the change. The rows on one
-- subject are the history of an override, newest first, which `undo` reads.
create table audit (
  seq       bigint not null primary key,
  ws        text collate "C" not null,
  at        bigint not null,
  author    text collate "C",
  address   text collate "C",
  operation text collate "C" not null,
  subject   text collate "C" not null,
  before    text collate "C",
  after     text collate "C"
);
create index audit_newest on audit (ws, seq);
create index audit_subject on audit (ws, subject, seq);
