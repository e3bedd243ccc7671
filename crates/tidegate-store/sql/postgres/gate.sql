-- name: gate_due
-- Reads gates that are due at or after a time, earliest first.
--
-- $1 earliest due time (µs)   $2 limit
-- Locks nothing: its rows are hints. Index: gate_due.
select {columns}
  from gate
 where due is not null and due >= $1::bigint
 order by due, key
 limit $2::bigint

-- name: gate_of_run
-- Reads the open windows or buffers by the runs that they will start.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing: its rows are hints. Index: gate_window. The `offset 0` keeps the planner from
-- using the primary key instead.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(id, most, n)
 cross join lateral (
        select {place.columns}
          from (select {gate.columns}
                  from gate
                 where gate.id = wanted.id
                   and gate.event is not null
                offset 0) as place
         order by place.key
         limit wanted.most
       ) as found
 order by wanted.n, found.key

-- name: gate_prefix
-- Reads the gates whose key begins with a prefix.
--
-- $1 prefix   $2 first key after all keys with the prefix   $3 limit
-- (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bytea[], $2::bytea[], $3::bigint[])
       with ordinality as wanted(start, stop, most, n)
 cross join lateral (
        select {gate.columns}
          from gate
         where gate.key >= wanted.start
           and gate.key < wanted.stop
         order by gate.key
         limit wanted.most
       ) as found
 order by wanted.n, found.key
