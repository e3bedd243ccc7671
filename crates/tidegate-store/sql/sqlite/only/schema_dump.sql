-- Reads the schema: tables, then indexes, by name.
--
-- No parameters. Indexes that SQLite makes by itself have no text.
select sql
  from sqlite_schema
 where sql is not null
 order by type desc, name
