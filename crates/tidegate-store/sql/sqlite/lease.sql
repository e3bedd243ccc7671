-- name: lease_acquire
-- Acquires the lease of a name, unless another holder has it.
--
-- ?1 name   ?2 holder   ?3 fence   ?4 until   ?5 now
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- Changes no row if another holder has the lease; lease_read then returns that holder.
insert into lease (name, holder, fence, until)
select ?1, ?2, ?3, ?4
 where not exists (
        select 1
          from lease
         where name = ?1
           and holder <> ?2
           and until > ?5
       )
    on conflict (name) do update
   set holder = excluded.holder,
       fence  = excluded.fence,
       until  = excluded.until

-- name: lease_read
-- Reads the lease of a name, expired or not.
--
-- ?1 name   ?2 now
-- Index: the primary key.
select holder, fence, until, until - ?2 as left
  from lease
 where name = ?1

-- name: lease_release
-- Releases a lease, and returns whether it had not expired.
--
-- ?1 name   ?2 holder   ?3 fence   ?4 now
-- Locks nothing: SQLite has one writer. Index: the primary key.
-- Returns no row if the lease was released before, or acquired again.
delete from lease
 where name = ?1
   and holder = ?2
   and fence = ?3
returning until > ?4 as good

-- name: lease_renew
-- Extends a lease, unless its holder has lost it.
--
-- ?1 name   ?2 holder   ?3 fence   ?4 until   ?5 now
-- Locks nothing: SQLite has one writer. Index: the primary key.
-- Returns no row if the lease has expired, was released, or was acquired again.
update lease
   set until = ?4
 where name = ?1
   and holder = ?2
   and fence = ?3
   and until > ?5
returning until
