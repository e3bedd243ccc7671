-- Inserts kept answers.
--
-- Parameters: the columns in order, arrays of one length, sorted by key.
-- Never `on conflict`: a row that is there is an error, and the caller decides what it means.
insert into reply
       (ws, id, seq, at, hash, answer, response)
select new.ws, new.id, new.seq, new.at, new.hash, new.answer, new.response
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
              $7::text[])
       as new(ws, id, seq, at, hash, answer, response)
