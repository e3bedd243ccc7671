-- Says what became of a transaction: committed, aborted or in progress.
--
-- $1 the transaction's name, as tx_stamp gave it
-- A failed transaction's COMMIT succeeds and rolls back (R11), and a COMMIT whose answer was lost
-- may have done either (R10): only this knows.
select pg_xact_status($1::text::xid8)
