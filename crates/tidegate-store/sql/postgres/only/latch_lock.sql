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
