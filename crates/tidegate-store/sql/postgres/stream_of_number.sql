-- Reads the streams of numbers.
--
-- $1 number   $2 how many (arrays: one place for each scan)
-- Locks nothing: a hint. Index: stream_id.
-- Returns the scan's place first, from 1.
select wanted.n, found.ws, found.name, found.id, found.head, found.closed
  from unnest($1::bigint[], $2::bigint[])
       with ordinality as wanted(id, most, n)
 cross join lateral (
        select stream.ws, stream.name, stream.id, stream.head, stream.closed
          from stream
         where stream.id = wanted.id
         order by stream.ws, stream.name
         limit wanted.most
       ) as found
 order by wanted.n, found.ws, found.name
