-- name: reply_after
-- Reads stored replies after a number, oldest first.
--
-- $1 after   $2 limit
-- Locks nothing: a hint.
-- Index: reply_seq.
select {found.columns}
  from (select {columns}
          from reply
         where seq > $1::bigint
         order by seq
         fetch first ($2::bigint) rows with ties) as found
 order by found.seq, found.ws, found.id
 limit $2::bigint
