-- name: receipt_after
-- Reads receipts after a sequence number, oldest first.
--
-- $1 after this number   $2 limit
-- Locks nothing: its rows are hints.
-- Index: the primary key.
select {columns}
  from receipt
 where seq > $1::bigint
 order by seq
 limit $2::bigint

-- name: receipt_newest
-- Reads the newest receipts of workspaces.
--
-- $1 ws   $2 below this number   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: receipt_newest.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, below, most, n)
 cross join lateral (
        select {receipt.columns}
          from receipt
         where (receipt.ws, receipt.seq) < (wanted.ws, wanted.below)
           and receipt.ws >= wanted.ws
         order by receipt.ws desc, receipt.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.seq desc

-- name: receipt_of_event
-- Reads the receipts of events.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: receipt_event.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(event, most, n)
 cross join lateral (
        select {receipt.columns}
          from receipt
         where receipt.event between wanted.event and wanted.event
         order by receipt.event, receipt.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq
