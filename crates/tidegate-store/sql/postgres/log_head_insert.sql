-- Inserts log heads.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into log_head
       (ws, pos)
select new.ws, new.pos
  from unnest($1::text[], $2::bigint[])
       as new(ws, pos)
