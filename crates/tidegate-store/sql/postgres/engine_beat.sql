-- Renews an engine's lease, unless the engine was declared dead.
--
-- $1 id
-- Locks the engine's row. Index: the primary key. No row changed: there is none, or it is marked
-- dead.
update engine
   set beat = beat + 1
 where id = $1::text
   and dead = 0
returning beat
