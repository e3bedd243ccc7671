-- name: audit_after
-- Reads rows of the audit log after a sequence number, oldest first.
--
-- $1 after this number   $2 limit
-- Locks nothing: its rows are hints.
-- Index: the primary key.
select {columns}
  from audit
 where seq > $1::bigint
 order by seq
 limit $2::bigint

-- name: audit_newest
-- Reads the newest rows of the audit logs of workspaces.
--
-- $1 ws   $2 below this number   $3 limit (arrays: one element per scan)
-- Locks nothing. Index: audit_newest.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::bigint[], $3::bigint[])
       with ordinality as wanted(ws, below, most, n)
 cross join lateral (
        select {audit.columns}
          from audit
         where (audit.ws, audit.seq) < (wanted.ws, wanted.below)
           and audit.ws >= wanted.ws
         order by audit.ws desc, audit.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.seq desc

-- name: audit_of_subject
-- Reads the newest rows of audit logs on one subject each.
--
-- $1 ws   $2 subject   $3 below this number   $4 limit (arrays: one element per scan)
-- Locks nothing. Index: audit_subject.
-- First column: position of the scan in the arrays, from 1.
select wanted.n, {found.columns}
  from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
       with ordinality as wanted(ws, subject, below, most, n)
 cross join lateral (
        select {audit.columns}
          from audit
         where (audit.ws, audit.subject, audit.seq) < (wanted.ws, wanted.subject, wanted.below)
           and (audit.ws, audit.subject) >= (wanted.ws, wanted.subject)
         order by audit.ws desc, audit.subject desc, audit.seq desc
         limit wanted.most
       ) as found
 order by wanted.n, found.seq desc
