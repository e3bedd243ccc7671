-- Reads the streams of numbers.
--
-- $1 number   $2 limit (arrays: one element per scan)
-- Locks nothing: a hint. Index: stream_id. The `offset 0` keeps the planner from reading the
-- primary key in order instead.
-- First column: index of the scan, from 1.
select wanted.n, found.ws, found.name, found.id, found.head, found.closed
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(id, most, n)
 cross join lateral (
        select place.ws, place.name, place.id, place.head, place.closed
          from (select stream.ws, stream.name, stream.id, stream.head, stream.closed
                  from stream
                 where stream.id = wanted.id
                offset 0) as place
         order by place.ws, place.name
         limit wanted.most
       ) as found
 order by wanted.n, found.ws, found.name
