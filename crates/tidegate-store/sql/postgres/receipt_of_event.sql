-- Reads the receipts of events.
--
-- $1 event   $2 limit (arrays: one element per scan)
-- Locks nothing. Index: receipt_event.
-- First column: index of the scan, from 1.
select wanted.n, found.seq, found.ws, found.app, found.workflow, found.key,
       found.event, found.at, found.verdict
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(event, most, n)
 cross join lateral (
        select receipt.seq, receipt.ws, receipt.app, receipt.workflow, receipt.key,
               receipt.event, receipt.at, receipt.verdict
          from receipt
         where receipt.event between wanted.event and wanted.event
         order by receipt.event, receipt.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq
