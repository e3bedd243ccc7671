-- Reads the ended runs that were started with an event.
--
-- ?1 event   ?2 limit
-- Locks nothing: SQLite has one writer.
-- Indexes: the primary key in the blocks around the event's, where nearly all of them are;
-- ended_far.
select seq, salt, ws, app, workflow, version, state, queued_at, ended_at, event_seq, body,
       lane
  from ended
 where seq in (select seq
                 from ended
                where seq >= ((?1 >> 12) - 1) << 12
                  and seq < ((?1 >> 12) + 2) << 12
                  and event_seq = ?1
               union
               select seq
                 from ended
                where event_seq = ?1
                  and abs((event_seq >> 12) - (seq >> 12)) > 1)
 order by seq
 limit ?2
