-- Sets the timeouts of a transactional step's part of its transaction.
--
-- $1 milliseconds
-- Nothing else is set: names resolve as they do for the user. The timeouts end the transactions of
-- processes that were suspended or disconnected.
select set_config('statement_timeout', $1::text, true),
       set_config('idle_in_transaction_session_timeout', $1::text, true)
