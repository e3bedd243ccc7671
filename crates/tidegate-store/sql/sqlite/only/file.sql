-- name: file_check
-- Returns `ok`, or the defects of the file's pages and indexes.
--
-- Locks nothing. Reads everything.
pragma integrity_check(1)

-- name: file_copy
-- Writes all rows of one snapshot into another file, without the unused pages of this one.
--
-- ?1 the other file, which must be missing or empty
-- Locks nothing: the writer can continue. Reads everything.
vacuum into ?1

-- name: schema_dump
-- Reads the schema: tables, then indexes, by name.
--
-- No parameters. Indexes that SQLite makes by itself have no text.
select sql
  from sqlite_schema
 where sql is not null
 order by type desc, name
