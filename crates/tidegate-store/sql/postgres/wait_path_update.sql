-- Finds wait paths by key: all of their columns are the key, so that nothing can change.
--
-- $1 ws   $2 name   $3 path (arrays of one length)
-- A row that is missing is an error (R2), raised here because COMMIT is already on its way.
select expect_rows('wait_path', count(*), cardinality($1))
  from wait_path
  join unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, name, path)
    on wait_path.ws = wanted.ws
   and wait_path.name = wanted.name
   and wait_path.path = wanted.path
