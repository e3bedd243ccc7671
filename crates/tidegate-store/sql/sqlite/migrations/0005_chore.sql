-- Work that is too much for one transaction and is done in chunks.

create table chore (
  seq   integer not null primary key,
  salt  integer not null,
  ws    text    not null,
  topic text,
  due   integer,
  work  text    not null
) strict;
create index chore_due on chore (due, seq) where due is not null;
create index chore_topic on chore (ws, topic, seq) where topic is not null;
