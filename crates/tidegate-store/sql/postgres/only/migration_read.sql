-- Reads the migrations that this schema has had, in order.
--
-- Locks nothing: the caller holds the latch of migrations.
select version, name, checksum
  from migration
 order by version
