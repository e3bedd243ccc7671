-- Gives kept answers new contents.
--
-- Parameters: the columns in order, arrays of one length.
-- The rows are locked by reply_lock.
-- Index: the primary key, once for each row (README).
-- A row that is missing is an error (spec R2), raised here because COMMIT is already on its way.
with changed as (
    update reply
       set seq      = new.seq,
           at       = new.at,
           hash     = new.hash,
           answer   = new.answer,
           response = new.response
      from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
                  $7::text[])
           as new(ws, id, seq, at, hash, answer, response)
     where reply.ctid = (
            select found.ctid
              from reply as found
             where (found.ws, found.id) between (new.ws, new.id) and (new.ws, new.id)
             order by found.ws, found.id
             limit 1
           )
    returning 1
)
select expect_rows('reply', count(*), cardinality($1))
  from changed
