-- Extends a lease, unless it was lost.
--
-- $1 name   $2 holder   $3 fence   $4 time to live (µs)
-- The caller holds the name's latch, so that the clock is read after the lock (spec R8).
-- Index: the primary key.
-- No row: it expired, was released, or was acquired again.
update lease
   set until = clock() + $4::bigint
 where name = $1::text
   and holder = $2::text
   and fence = $3::bigint
   and until > clock()
returning until
