-- Reads the newest receipts of workspaces.
--
-- $1 ws   $2 below   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: receipt_newest.
-- First column: index of the scan, from 1.
select wanted.n, found.seq, found.ws, found.app, found.workflow, found.key,
       found.event, found.at, found.verdict
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, below, most, n)
 cross join lateral (
        select receipt.seq, receipt.ws, receipt.app, receipt.workflow, receipt.key,
               receipt.event, receipt.at, receipt.verdict
          from receipt
         where (receipt.ws, receipt.seq) < (wanted.ws, wanted.below)
           and receipt.ws >= wanted.ws
         order by receipt.ws desc, receipt.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.seq desc
