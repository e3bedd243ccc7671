-- name: stream_of_number
-- Reads the streams of numbers.
--
-- $1 number   $2 limit (arrays: one element per scan)
-- Locks nothing: a hint. Index: stream_id. The `offset 0` keeps the planner from reading the
-- primary key in order instead.
-- First column: index of the scan, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(id, most, n)
 cross join lateral (
        select {place.columns}
          from (select {stream.columns}
                  from stream
                 where stream.id = wanted.id
                offset 0) as place
         order by place.ws, place.name
         limit wanted.most
       ) as found
 order by wanted.n, found.ws, found.name

-- name: stream_of_workspace
-- Reads workspaces' streams by name, after a given one.
--
-- $1 ws   $2 after   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: index of the scan, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::bigint[])
       with ordinality as wanted(ws, after, most, n)
 cross join lateral (
        select {stream.columns}
          from stream
         where stream.ws = wanted.ws
           and stream.name > wanted.after
         order by stream.name
         limit wanted.most
       ) as found
 order by wanted.n, found.name
