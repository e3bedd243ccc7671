-- name: reply_after
-- Reads stored replies after a sequence number, oldest first.
--
-- $1 after this number   $2 limit
-- Locks nothing: its rows are hints.
-- Index: reply_seq.
select {found.columns}
  from (select {columns}
          from reply
         where seq > $1::bigint
         order by seq
         fetch first ($2::bigint) rows with ties) as found
 order by found.seq, found.ws, found.id
 limit $2::bigint
