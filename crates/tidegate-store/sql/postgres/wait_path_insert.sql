-- Inserts wait paths.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into wait_path
       (ws, name, path)
select new.ws, new.name, new.path
  from unnest($1::text[], $2::text[], $3::text[])
       as new(ws, name, path)
