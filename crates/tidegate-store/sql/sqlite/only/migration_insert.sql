-- Records a migration that was applied.
--
-- ?1 version   ?2 name   ?3 checksum   ?4 at (µs)
insert into migration (version, name, checksum, at)
values (?1, ?2, ?3, ?4)
