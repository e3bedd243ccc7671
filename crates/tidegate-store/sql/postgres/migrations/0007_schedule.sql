-- Schedules: one row each, which says when the next occurrence is planned for. Whoever starts it
-- moves the row on in the same transaction, so that an occurrence gives one run over all engines.
create table schedule (
  ws       text collate "C" not null,
  app      text collate "C" not null,
  workflow text collate "C" not null,
  id       text collate "C" not null,
  next     bigint,
  last     bigint,
  primary key (ws, app, workflow, id)
) with (fillfactor = 80);
create index schedule_next on schedule (next, ws, app, workflow, id) where next is not null;
