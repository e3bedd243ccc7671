-- Takes the lease of a name, unless somebody else has it.
--
-- $1 name   $2 holder   $3 time to live (µs)
-- The caller holds the name's latch, so that the clock is read and the fence drawn one after
-- another for a name: fences grow in the order in which leases are given. Index: the primary key.
-- No row changed: another has it. A later statement reads who.
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
