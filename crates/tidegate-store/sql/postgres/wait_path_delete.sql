-- Deletes wait paths by key.
--
-- $1 ws   $2 name   $3 path (arrays of one length)
-- The rows are deleted under the lock of the row that owns them.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with gone as (
    delete from wait_path
     using unnest($1::text[], $2::text[], $3::text[])
           as old(ws, name, path)
     where wait_path.ctid = (
            select found.ctid
              from wait_path as found
             where (found.ws, found.name, found.path)
                   between (old.ws, old.name, old.path)
                       and (old.ws, old.name, old.path)
             order by found.ws, found.name, found.path
             limit 1
           )
    returning 1
)
select expect_rows('wait_path', count(*), cardinality($1))
  from gone
