-- Deletes wait paths by key.
--
-- $1 ws   $2 name   $3 path (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
with gone as (
    delete from wait_path
     using unnest($1::text[], $2::text[], $3::text[])
           as old(ws, name, path)
     where wait_path.ws = old.ws
       and wait_path.name = old.name
       and wait_path.path = old.path
    returning 1
)
select expect_rows('wait_path', count(*), cardinality($1))
  from gone
