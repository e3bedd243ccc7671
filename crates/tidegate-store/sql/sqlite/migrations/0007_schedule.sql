-- Schedules: one row each, which says when the next occurrence is planned for. Whoever starts it
-- moves the row on in the same transaction, so that an occurrence gives one run over all engines.
create table schedule (
  ws       text    not null,
  app      text    not null,
  workflow text    not null,
  id       text    not null,
  next     integer,
  last     integer,
  primary key (ws, app, workflow, id)
) strict, without rowid;
create index schedule_next on schedule (next, ws, app, workflow, id) where next is not null;
