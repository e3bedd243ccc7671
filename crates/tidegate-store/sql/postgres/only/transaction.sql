-- name: tx_settings
-- Makes the settings for a transaction, until it ends.
--
-- $1 search_path   $2 lock_timeout   $3 statement_timeout   $4 idle_in_transaction_session_timeout
-- $5 the time to use, empty for the server's own
-- Local to the transaction: through a pooler, a session's settings are another client's. Our own
-- sessions have the same from session_settings.
-- A suspended process must not hold a gate (spec R16): the server ends its transaction.
-- The planner is restricted to the indexes that the statements name by their bounds and `order by`,
-- whatever the statistics say (README). This makes a sort without an alternative look expensive,
-- and such a plan must not be JIT-compiled. No statement is planned for its parameters.
select set_config('search_path', $1::text, true),
       set_config('lock_timeout', $2::text, true),
       set_config('statement_timeout', $3::text, true),
       set_config('idle_in_transaction_session_timeout', $4::text, true),
       set_config('tidegate.clock', $5::text, true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true),
       set_config('enable_incremental_sort', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('jit', 'off', true)

-- name: tx_stamp
-- Reads the clock and draws a block of sequence numbers.
--
-- Runs after all locks: `now()` is the start of the transaction and would go backwards between two
-- holders of a lock (spec R8), and so would numbers drawn before the lock was taken. The sequence
-- grows by 4096, a whole block.
select clock(),
       nextval('block')

-- name: step_begin
-- Sets the timeouts of a transactional step's part of its transaction.
--
-- $1 milliseconds
-- Nothing else is set: names resolve as they do for the user. The timeouts end the transactions of
-- processes that were suspended or disconnected.
select set_config('statement_timeout', $1::text, true),
       set_config('idle_in_transaction_session_timeout', $1::text, true)

-- name: latch_lock
-- Takes latches: locks that belong to no row.
--
-- $1 first half of the number   $2 second half   $3 1 for exclusive, 0 for shared
-- Arrays of one length, sorted and without duplicates, whatever the mode: all transactions take
-- them in this order, so they cannot deadlock. Released when the transaction ends.
select case latch.alone
       when 1 then pg_advisory_xact_lock(latch.high::integer, latch.low::integer)
       else pg_advisory_xact_lock_shared(latch.high::integer, latch.low::integer)
       end
  from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as latch(high, low, alone)
