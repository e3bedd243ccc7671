-- name: file_check
-- Returns `ok`, or a defect of the file's pages and indexes.
--
-- Locks nothing. Reads the whole file.
pragma integrity_check(1)

-- name: file_copy
-- Copies the database, as it is at one moment, into another file without unused pages.
--
-- ?1 the other file, which must be missing or empty
-- Locks nothing: the writer can continue. Reads the whole file.
vacuum into ?1

-- name: schema_dump
-- Reads the schema: tables, then indexes, by name.
--
-- No parameters. Indexes that SQLite creates itself have no SQL text and are left out.
select sql
  from sqlite_schema
 where sql is not null
 order by type desc, name
