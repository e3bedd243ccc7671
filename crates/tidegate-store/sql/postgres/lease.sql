-- name: lease_acquire
-- Acquires the lease of a name, unless another holder has it.
--
-- $1 name   $2 holder   $3 time to live (µs)
-- The caller holds the name's latch, so that one transaction at a time reads the clock and draws a
-- fence for the name: fences grow in the order in which leases are granted. Index: the primary key.
-- Changes no row if another holder has the lease; lease_read then returns that holder.
insert into lease (name, holder, fence, until)
select $1::text, $2::text, nextval('lease_fence'), clock() + $3::bigint
 where not exists (
        select 1
          from lease
         where name = $1::text
           and holder <> $2::text
           and until > clock()
       )
    on conflict (name) do update
   set holder = excluded.holder,
       fence  = excluded.fence,
       until  = excluded.until

-- name: lease_read
-- Reads the lease of a name, expired or not.
--
-- $1 name
-- Locks nothing: the caller holds the name's latch. Index: the primary key.
select holder, fence, until, until - clock() as left
  from lease
 where name = $1::text

-- name: lease_release
-- Releases a lease, and returns whether it had not expired.
--
-- $1 name   $2 holder   $3 fence
-- The caller holds the name's latch. Index: the primary key.
-- Returns no row if the lease was released before, or acquired again.
delete from lease
 where name = $1::text
   and holder = $2::text
   and fence = $3::bigint
returning (until > clock())::integer::bigint as good

-- name: lease_renew
-- Extends a lease, unless its holder has lost it.
--
-- $1 name   $2 holder   $3 fence   $4 time to live (µs)
-- The caller holds the name's latch, so that the clock is read after the lock (spec R8).
-- Index: the primary key.
-- Returns no row if the lease has expired, was released, or was acquired again.
update lease
   set until = clock() + $4::bigint
 where name = $1::text
   and holder = $2::text
   and fence = $3::bigint
   and until > clock()
returning until
