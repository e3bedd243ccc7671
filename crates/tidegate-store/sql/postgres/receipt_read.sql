-- Reads receipts by key.
--
-- $1 seq (arrays of one length)
-- Locks nothing. Index: the primary key, once for each key (README).
select found.seq, found.ws, found.app, found.workflow, found.key, found.event, found.at,
       found.verdict
  from unnest($1::bigint[])
       as wanted(seq)
 cross join lateral (
        select receipt.seq, receipt.ws, receipt.app, receipt.workflow, receipt.key, receipt.event,
               receipt.at, receipt.verdict
          from receipt
         where receipt.seq between wanted.seq and wanted.seq
         order by receipt.seq
         limit 1
       ) as found
