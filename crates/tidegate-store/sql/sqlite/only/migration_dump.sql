-- Reads the migrations that were applied, in order.
--
-- No parameters.
select version, name, checksum
  from migration
 order by version
