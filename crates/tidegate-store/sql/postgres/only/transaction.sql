-- name: tx_settings
-- Sets the options for a transaction, until it ends.
--
-- $1 search_path   $2 lock_timeout   $3 statement_timeout   $4 idle_in_transaction_session_timeout
-- $5 the time that `clock()` returns; empty for the server's clock
-- The settings end with the transaction: behind a pooler, the next transaction of the session may
-- belong to another client. Connections without a pooler get the same settings from
-- session_settings. The timeouts end the transaction of a suspended process, which must not hold a
-- gate (spec R16). The planner settings leave only the indexes that a statement names by its bounds
-- and `order by`, whatever the statistics say (README). JIT is off because a necessary sort now
-- looks so expensive that its plan would be compiled. Plans do not depend on the values of
-- parameters.
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
-- Runs after all locks are taken. Otherwise the second holder of a lock could get an earlier time
-- (`now()` is the start of the transaction) and smaller numbers than the first (spec R8). The
-- sequence grows by 4096, a whole block.
select clock(),
       nextval('block')

-- name: step_begin
-- Sets the timeouts for the statements of a transactional step.
--
-- $1 milliseconds
-- Sets nothing else, so that the step's statements use the `search_path` of the database user. The
-- timeouts end the transaction of a process that was suspended or disconnected.
select set_config('statement_timeout', $1::text, true),
       set_config('idle_in_transaction_session_timeout', $1::text, true)

-- name: latch_lock
-- Takes latches: locks that belong to no row.
--
-- $1 first half of the latch's number   $2 second half   $3 1 for exclusive, 0 for shared
-- The parameters are arrays of one length, sorted by number and without duplicates. All
-- transactions take latches in this order, so they cannot deadlock. Latches are released when the
-- transaction ends.
select case latch.alone
       when 1 then pg_advisory_xact_lock(latch.high::integer, latch.low::integer)
       else pg_advisory_xact_lock_shared(latch.high::integer, latch.low::integer)
       end
  from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as latch(high, low, alone)
