-- Acquires the lease of a name, unless another holder has it.
--
-- ?1 name   ?2 holder   ?3 fence   ?4 until   ?5 now
-- Locks nothing: SQLite has one writer, and this runs inside its transaction.
-- Index: the primary key.
-- No row changed: another holder has it. The caller reads which.
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
