-- Bounds a transactional step's part of its transaction.
--
-- $1 milliseconds
-- Nothing else is set: names mean what they mean to the user. The time-outs end what a process
-- that was stopped or cut off has left behind.
select set_config('statement_timeout', $1::text, true),
       set_config('idle_in_transaction_session_timeout', $1::text, true)
