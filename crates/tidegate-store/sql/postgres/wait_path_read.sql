-- Reads wait paths by key.
--
-- $1 ws   $2 name   $3 path (arrays of one length)
-- Locks nothing. Index: the primary key. Row order is not promised.
select wait_path.ws, wait_path.name, wait_path.path
  from wait_path
  join unnest($1::text[], $2::text[], $3::text[])
       as wanted(ws, name, path)
    on wait_path.ws = wanted.ws
   and wait_path.name = wanted.name
   and wait_path.path = wanted.path
