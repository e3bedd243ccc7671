-- Work that is too much for one transaction and is done in chunks.

create table chore (
  seq   bigint not null primary key,
  salt  bigint not null,
  ws    text collate "C" not null,
  topic text collate "C",
  due   bigint,
  work  text collate "C" not null
) with (fillfactor = 80);
create index chore_due on chore (due, seq) where due is not null;
create index chore_topic on chore (ws, topic, seq) where topic is not null;
