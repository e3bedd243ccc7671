-- Releases a lease, and returns whether it had not expired.
--
-- $1 name   $2 holder   $3 fence
-- The caller holds the name's latch. Index: the primary key.
-- No row: it was released before, or acquired again.
delete from lease
 where name = $1::text
   and holder = $2::text
   and fence = $3::bigint
returning (until > clock())::integer::bigint as good
