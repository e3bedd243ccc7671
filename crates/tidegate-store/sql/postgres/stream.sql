-- name: stream_of_number
-- Reads streams by number.
--
-- $1 number   $2 limit (arrays: one element per scan)
-- Locks nothing: its rows are hints. Index: stream_id. The `offset 0` keeps the planner from using
-- the primary key instead.
-- First column: position of the scan in the arrays, from 1.
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
-- Reads the streams of workspaces in order of name, after a given name.
--
-- $1 ws   $2 after this name   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: the primary key.
-- First column: position of the scan in the arrays, from 1.
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
