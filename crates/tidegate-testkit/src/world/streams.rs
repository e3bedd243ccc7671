//! Operations on streams and reactions in a [`World`].

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    draft::{Draft, Stop},
    reaction::{
        Ack, Claimed, Failed, Failure, Follower, Leased, Outcome, Reaction, Remedy, Repair,
        StreamSelection,
    },
    reads::{ReadSet, Scan},
    row::{Row, RowKey, Stream, StreamEventRow, Subscription},
    stream::{
        Close, ClosePhase, Closed, Commit, Committed, Expected, NewLogged, Restart, StreamRefusal,
        Truncated, close_phase,
    },
};

use super::{MANY, World, payload};

impl World {
    /// Executes one stream command.
    pub async fn stream(&self, command: StreamCommand) -> Result<StreamAnswer, Refusal> {
        match self.run(Command::Stream { ws: self.ws.clone(), command }).await? {
            Answer::Stream(answer) => Ok(answer),
            other => panic!("unexpected answer to a stream command: {other:?}"),
        }
    }

    /// Builds a commit of events with these names.
    pub fn commit(&self, stream: &str, names: &[&str], expected: Option<Expected>) -> Commit {
        let events = names.iter().map(|name| logged(name, &json!({ "name": name }))).collect();
        Commit { ws: self.ws.clone(), stream: stream.to_owned(), events, expected }
    }

    /// Commits events; the commit may be refused.
    pub async fn try_append(&self, commit: Commit) -> Result<Committed, StreamRefusal> {
        match self.stream(StreamCommand::Commit(commit)).await {
            Ok(StreamAnswer::Committed(committed)) => Ok(committed),
            Err(Refusal::Stream(refusal)) => Err(refusal),
            other => panic!("unexpected answer to a commit: {other:?}"),
        }
    }

    /// Appends events with these names to the end of a stream.
    pub async fn append(&self, stream: &str, names: &[&str]) -> Committed {
        self.try_append(self.commit(stream, names, None)).await.expect("an open stream")
    }

    /// Defines a reaction from JSON.
    pub async fn react(&self, definition: Value) {
        let reaction = Reaction::parse(&definition).expect("a good definition");
        let done = self.stream(StreamCommand::Define(reaction)).await;
        assert_eq!(done, Ok(StreamAnswer::Done));
    }

    /// Subscribes a reaction to a stream that existed before it.
    pub async fn follow(&self, reaction: &str, stream: &str) {
        let (reaction, stream) = (reaction.to_owned(), stream.to_owned());
        let done = self.stream(StreamCommand::Follow { reaction, stream }).await;
        assert_eq!(done, Ok(StreamAnswer::Done));
    }

    /// Leases streams with new events; returns them, and the streams that were blocked instead.
    pub async fn claim_or_block(&self, reaction: &str, limit: u32) -> Claimed {
        match self.stream(self.claiming(reaction, limit)).await {
            Ok(StreamAnswer::Claimed(claimed)) => claimed,
            other => panic!("unexpected answer to a claim: {other:?}"),
        }
    }

    /// Builds the claim command of this engine.
    pub fn claiming(&self, reaction: &str, limit: u32) -> StreamCommand {
        let (reaction, engine) = (reaction.to_owned(), self.engine);
        StreamCommand::Claim { reaction, engine, limit }
    }

    /// Leases streams with new events.
    pub async fn claim(&self, reaction: &str, limit: u32) -> Vec<Leased> {
        let claimed = self.claim_or_block(reaction, limit).await;
        assert_eq!(claimed.blocked, [], "a claim blocked a stream");
        claimed.leased
    }

    /// Leases the only stream with new events.
    pub async fn claim_one(&self, reaction: &str) -> Leased {
        let mut leased = self.claim(reaction, MANY).await;
        assert_eq!(leased.len(), 1, "not exactly one stream was leased: {leased:?}");
        leased.pop().expect("one stream")
    }

    /// Acknowledges the events of each lease up to a version.
    pub async fn ack(&self, acks: &[(&Leased, i64)]) -> Vec<Outcome<i64>> {
        self.try_ack(acks).await.expect("the events exist")
    }

    /// Acknowledges the events of leases; the call may be refused.
    pub async fn try_ack(&self, acks: &[(&Leased, i64)]) -> Result<Vec<Outcome<i64>>, Refusal> {
        let ack =
            |(leased, upto): &(&Leased, i64)| Ack { lease: leased.lease.clone(), upto: *upto };
        self.places(StreamCommand::Ack(acks.iter().map(ack).collect())).await
    }

    /// Renews a lease; returns whether the lease was still valid.
    pub async fn renew(&self, leased: &Leased) -> bool {
        let (reaction, mine) = (leased.lease.reaction.clone(), vec![leased.lease.clone()]);
        match self.stream(StreamCommand::Renew { reaction, leases: mine }).await {
            Ok(StreamAnswer::Renewed(outcomes)) => matches!(outcomes[..], [Outcome::Done(_)]),
            other => panic!("unexpected answer to a renewal: {other:?}"),
        }
    }

    /// Reports a retryable failure of the handler after this version.
    pub async fn fail_after(&self, leased: &Leased, done_upto: i64) -> Outcome<Failed> {
        self.fail_with(leased, done_upto, true).await
    }

    /// Reports a failure of the handler after this version.
    pub async fn fail_with(&self, leased: &Leased, upto: i64, retryable: bool) -> Outcome<Failed> {
        let failure =
            Failure { done_upto: upto, error: "boom".into(), retryable, chance: 0, wait_ms: None };
        match self.stream(StreamCommand::Fail { lease: leased.lease.clone(), failure }).await {
            Ok(StreamAnswer::Failed(failed)) => failed,
            other => panic!("unexpected answer to a failure: {other:?}"),
        }
    }

    /// Blocks the stream of a lease after this version.
    pub async fn block(&self, leased: &Leased, done_upto: i64, reason: &str) -> Outcome<i64> {
        let (lease, reason) = (leased.lease.clone(), reason.to_owned());
        self.place(StreamCommand::Block { lease, done_upto, reason }).await
    }

    /// Defers the stream of a lease by `ms` milliseconds.
    pub async fn defer(&self, leased: &Leased, done_upto: i64, ms: u64) -> Outcome<i64> {
        let (lease, until) = (leased.lease.clone(), self.now().plus_ms(ms));
        self.place(StreamCommand::Defer { lease, done_upto, until }).await
    }

    async fn place(&self, command: StreamCommand) -> Outcome<i64> {
        let mut places = self.places(command).await.expect("the events exist");
        places.pop().expect("one lease has one outcome")
    }

    async fn places(&self, command: StreamCommand) -> Result<Vec<Outcome<i64>>, Refusal> {
        match self.stream(command).await? {
            StreamAnswer::At(places) => Ok(places),
            other => panic!("unexpected answer to the end of a lease: {other:?}"),
        }
    }

    /// Repairs the selected streams as an engine does: reads them page by page, and repairs each
    /// page. Returns their names.
    pub async fn mend(
        &self,
        reaction: &str,
        remedy: Remedy,
        which: StreamSelection,
    ) -> Result<Vec<String>, Refusal> {
        let catalog =
            self.read(ReadSet::default().catalog(&self.ws)).await.catalogs[&self.ws].clone();
        let follower = Follower::from(catalog.reaction(reaction).expect("a known reaction"));
        let repair = Repair { ws: self.ws.clone(), follower, remedy, which };
        let mut mended: Vec<String> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let found = |draft: &Draft| repair.find(draft, after.as_deref(), 2);
            let streams = self.ask(found).await.map_err(Refusal::Reaction)?;
            let Some(last) = streams.last() else { return Ok(mended) };
            after = Some(last.clone());
            let command = StreamCommand::Repair { repair: repair.clone(), streams };
            match self.stream(command).await? {
                StreamAnswer::Repaired(streams) => mended.extend(streams),
                other => panic!("unexpected answer to a repair: {other:?}"),
            }
        }
    }

    /// Runs a query.
    async fn ask<T, E>(&self, question: impl Fn(&Draft) -> Result<T, Stop<E>>) -> Result<T, E> {
        let mut reads = ReadSet::default();
        loop {
            match question(&Draft::new(self.read(reads.clone()).await)) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Refused(refusal)) => return Err(refusal),
                Err(Stop::Need(more)) => reads.merge(*more),
                Err(Stop::Full) => panic!("a query has no changes"),
            }
        }
    }

    // ------------------------------------------------------------------ closing

    /// Closes a stream with a guard.
    pub async fn close(&self, stream: &str, expected: Option<Expected>) -> Result<Closed, Refusal> {
        let (ws, stream, meta) = (self.ws.clone(), stream.to_owned(), payload(&json!({})));
        match self.stream(StreamCommand::Close(Close { ws, stream, expected, meta })).await? {
            StreamAnswer::Closed(closed) => Ok(closed),
            other => panic!("unexpected answer to a close: {other:?}"),
        }
    }

    /// Deletes the oldest events of a closed stream.
    pub async fn truncate(&self, stream: &str, limit: u32) -> Result<Truncated, Refusal> {
        match self.stream(StreamCommand::Truncate { stream: stream.to_owned(), limit }).await? {
            StreamAnswer::Truncated(truncated) => Ok(truncated),
            other => panic!("unexpected answer to a truncation: {other:?}"),
        }
    }

    /// Restarts a truncated stream from a snapshot.
    pub async fn restart(&self, stream: &str, snapshot: &Value) -> Result<Committed, Refusal> {
        let (ws, stream, meta) = (self.ws.clone(), stream.to_owned(), payload(&json!({})));
        let restart = Restart { ws, stream, snapshot: payload(snapshot), meta };
        match self.stream(StreamCommand::Restart(restart)).await? {
            StreamAnswer::Committed(committed) => Ok(committed),
            other => panic!("unexpected answer to a restart: {other:?}"),
        }
    }

    /// Returns how far the closing of a stream has got.
    pub async fn close_phase(&self, stream: &str) -> ClosePhase {
        let catalog =
            self.read(ReadSet::default().catalog(&self.ws)).await.catalogs[&self.ws].clone();
        let phase =
            self.ask(|draft| close_phase::<Refusal>(draft, &self.ws, stream, catalog.followers()));
        phase.await.expect("the query is not refused")
    }

    // ------------------------------------------------------------------ queries

    /// Returns the row of a stream.
    pub async fn head(&self, stream: &str) -> Option<Stream> {
        match self.row(RowKey::Stream(self.ws.clone(), stream.to_owned())).await {
            Some(Row::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    /// Returns all events of a stream, in order.
    pub async fn log(&self, stream: &str) -> Vec<StreamEventRow> {
        let Some(stream) = self.head(stream).await else { return Vec::new() };
        self.events_of(Scan::Log(stream.id, 0)).await
    }

    /// Returns the names of a stream's events, in order.
    pub async fn names(&self, stream: &str) -> Vec<String> {
        self.log(stream).await.into_iter().map(|event| event.name).collect()
    }

    /// Returns the names of the events that are delivered under a lease, in order.
    pub async fn delivered(&self, leased: &Leased) -> Vec<String> {
        let events = self.events_of(Scan::Log(leased.log, leased.at + 1)).await;
        let events = events.into_iter().filter(|event| event.version <= leased.want);
        events.map(|event| event.name).collect()
    }

    /// Returns all events of the workspace after a position.
    pub async fn feed(&self, after: i64) -> Vec<StreamEventRow> {
        self.events_of(Scan::Feed(self.ws.clone(), after)).await
    }

    async fn events_of(&self, scan: Scan) -> Vec<StreamEventRow> {
        let snapshot = self.read(ReadSet::default().scan(scan.clone(), MANY)).await;
        let rows = snapshot.scans[&scan].keys.iter().filter_map(|key| snapshot.rows[key].clone());
        let event = |row| if let Row::StreamEventRow(event) = row { Some(event) } else { None };
        rows.filter_map(event).collect()
    }

    /// Returns a reaction's subscription to a stream.
    pub async fn sub(&self, reaction: &str, stream: &str) -> Subscription {
        let key = RowKey::Subscription(self.ws.clone(), reaction.to_owned(), stream.to_owned());
        match self.row(key).await {
            Some(Row::Subscription(sub)) => sub,
            other => panic!("`{reaction}` has no subscription to `{stream}`: {other:?}"),
        }
    }
}

/// Builds an event for a stream.
pub fn logged(name: &str, data: &Value) -> NewLogged {
    NewLogged { name: name.to_owned(), data: payload(data), meta: payload(&json!({})) }
}

/// Returns the sorted names of the leased streams.
pub fn streams_of(leased: &[Leased]) -> Vec<&str> {
    let mut streams: Vec<&str> = leased.iter().map(|leased| &*leased.lease.stream).collect();
    streams.sort_unstable();
    streams
}
