-- name: chunk_of_run
-- Reads the chunks that runs have emitted, after a position in each run.
--
-- $1 run   $2 after this position   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: chunk_run.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::bigint[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(run, after, most, n)
 cross join lateral (
        select {chunk.columns}
          from chunk
         where chunk.run = wanted.run
           and chunk.seq > wanted.after
         order by chunk.seq
         limit wanted.most
       ) as found
 order by wanted.n, found.seq
