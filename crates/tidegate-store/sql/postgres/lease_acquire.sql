-- Acquires the lease of a name, unless another holder has it.
--
-- $1 name   $2 holder   $3 time to live (µs)
-- The caller holds the name's latch, so that for a name the clock is read and the fence drawn by
-- one transaction at a time: fences grow in the order in which leases are granted. Index: the
-- primary key.
-- No row changed: another holder has it. A later statement reads which.
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
