-- Reads the windows or buffers that gather for runs.
--
-- $1 run   $2 limit (arrays: one element per scan)
-- Locks nothing: a hint. Index: gate_window. The `offset 0` keeps the planner from reading the
-- primary key in order instead.
-- First column: index of the scan, from 1.
select wanted.n, found.key, found.id, found.at, found.due, found.state, found.event
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(id, most, n)
 cross join lateral (
        select place.key, place.id, place.at, place.due, place.state, place.event
          from (select gate.key, gate.id, gate.at, gate.due, gate.state, gate.event
                  from gate
                 where gate.id = wanted.id
                   and gate.event is not null
                offset 0) as place
         order by place.key
         limit wanted.most
       ) as found
 order by wanted.n, found.key
