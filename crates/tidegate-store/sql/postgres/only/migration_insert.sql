-- Records a migration that was applied.
--
-- $1 version   $2 name   $3 checksum
insert into migration
       (version, name, checksum)
values ($1::bigint, $2::text, $3::text)
