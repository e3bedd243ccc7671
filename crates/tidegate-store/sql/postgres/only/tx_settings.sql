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
