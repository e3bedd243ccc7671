//! Queries of a reaction's positions in its streams, and operations for streams that are stuck.

use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    draft::{Decided, Draft, Stop},
    reaction::{Filter, Follower, Reaction, Remedy, Repair, StreamSelection},
    reads::{ReadSet, Scan},
    row::{EngineId, Row, Subscription},
    time::Timestamp,
};
use tidegate_store::{MAX_ROUNDS, StoreError};

use crate::{
    api::{Engine, unexpected},
    error::Error,
};

/// Number of streams that one transaction changes.
const MEND: usize = 200;

/// Number of subscriptions that one read returns. A query ends its page when it has read this many.
const READ: u32 = 1000;
const MOST_READ: usize = 20_000;

/// Query of the positions of reactions in streams.
#[derive(Clone, Debug, Default)]
pub struct StreamQuery {
    /// Reaction to query; `None` for all.
    pub reaction: Option<String>,
    /// Filter of the streams.
    pub filter: Filter,
    /// Cursor: the `next` of the previous page.
    pub after: Option<(String, String)>,
    /// Maximum number of results; 0 means 100.
    pub limit: usize,
}

/// A page of positions, ordered by reaction and stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPage {
    /// Positions of this page.
    pub streams: Vec<StreamView>,
    /// Cursor of the next page; `None` after the last. A page may be shorter than its limit.
    pub next: Option<(String, String)>,
}

/// Position of a reaction in a stream, and the reasons why it does not advance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamView {
    /// Name of the reaction.
    pub reaction: String,
    /// Name of the stream.
    pub stream: String,
    /// Version of the last handled event; -1 if none was handled.
    pub position: i64,
    /// Version of the last event that the reaction has to handle.
    pub want: i64,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Number of consecutive claims that ended without progress.
    pub claims: u32,
    /// Reason why the stream is blocked; `None` if it is not.
    pub blocked: Option<String>,
    /// Error of the last failure.
    pub error: Option<String>,
    /// Engine that holds the lease on the stream.
    pub holder: Option<EngineId>,
    /// End of the lease, unless it is renewed.
    pub lease_end: Option<Timestamp>,
    /// Earliest time at which the stream can be claimed again, because of a backoff or a deferral.
    pub due: Option<Timestamp>,
}

impl StreamView {
    fn of(sub: &Subscription, now: Timestamp) -> Self {
        let holder = sub.holder(now);
        Self {
            reaction: sub.reaction.clone(),
            stream: sub.stream.clone(),
            position: sub.at,
            want: sub.want,
            failures: sub.failures,
            claims: sub.claims,
            blocked: sub.blocked.clone(),
            error: sub.error.clone(),
            holder,
            lease_end: sub.until.filter(|_| holder.is_some()),
            due: sub.due.filter(|due| *due > now),
        }
    }
}

/// Operations on reactions.
impl Engine {
    /// Unblocks streams of a reaction, and returns their names.
    ///
    /// The reaction continues after the last acked event of each stream.
    pub async fn unblock(
        &self,
        reaction: &str,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Unblock, which).await
    }

    /// Resets a reaction to the first event of the selected streams, blocked or not, and returns
    /// the names of these streams.
    ///
    /// To reset all streams of the reaction, pass [`StreamSelection::All`].
    pub async fn reset(
        &self,
        reaction: &str,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Reset, which).await
    }

    /// Defers the selected streams of a reaction to a time, and returns their names. Streams that
    /// are being processed are left out.
    pub async fn defer(
        &self,
        reaction: &str,
        which: StreamSelection,
        until: Timestamp,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Defer(until), which).await
    }

    /// Makes the selected streams of a reaction the next ones to be claimed, once, and returns
    /// their names. Streams that are being processed are left out.
    pub async fn prioritize(
        &self,
        reaction: &str,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Prioritize, which).await
    }

    /// Returns the streams of a reaction that a remedy would apply to now, without applying it.
    pub async fn rehearse(
        &self,
        reaction: &str,
        remedy: Remedy,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.each_page(reaction, remedy, which, true).await
    }

    /// Returns the reactions of the workspace, ordered by name, whichever engines run them.
    pub async fn reactions(&self) -> Result<Vec<Reaction>, Error> {
        let snapshot = self.store().read(ReadSet::default().catalog(&self.ws())).await?;
        let catalog = snapshot.catalogs.get(&self.ws());
        Ok(catalog.into_iter().flat_map(|catalog| catalog.reactions().cloned()).collect())
    }

    /// Returns a page of the positions of reactions in their streams.
    ///
    /// This takes no lease and no lock.
    pub async fn query_streams(&self, query: &StreamQuery) -> Result<StreamPage, Error> {
        let limit = if query.limit == 0 { 100 } else { query.limit };
        let start = || (query.reaction.clone().unwrap_or_default(), String::new());
        let mut after = query.after.clone().unwrap_or_else(start);
        let (mut streams, mut read) = (Vec::new(), 0);
        loop {
            let scan = Scan::Subs(self.ws(), after.0.clone(), after.1.clone());
            let reads = ReadSet::default().catalog(&self.ws()).scan(scan.clone(), READ);
            let snapshot = self.store().read(reads).await?;
            let catalog = snapshot.catalogs.get(&self.ws());
            let found = snapshot.found(&scan);
            read += found.len();
            for row in &found {
                let Row::Subscription(sub) = row else { continue };
                if query.reaction.as_ref().is_some_and(|wanted| sub.reaction != *wanted) {
                    return Ok(StreamPage { streams, next: None });
                }
                after = (sub.reaction.clone(), sub.stream.clone());
                let definition = catalog.and_then(|it| it.reaction(&sub.reaction));
                let follower = definition.map(Follower::from);
                if follower.is_some_and(|follower| query.filter.passes(sub, &follower)) {
                    streams.push(StreamView::of(sub, snapshot.now));
                }
                if streams.len() >= limit {
                    return Ok(StreamPage { streams, next: Some(after) });
                }
            }
            if found.len() < READ as usize {
                return Ok(StreamPage { streams, next: None });
            }
            if read >= MOST_READ {
                return Ok(StreamPage { streams, next: Some(after) });
            }
        }
    }

    async fn mend(
        &self,
        reaction: &str,
        remedy: Remedy,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.each_page(reaction, remedy, which, false).await
    }

    /// Finds the selected streams page by page. Applies the remedy to each page, or with
    /// `rehearsal` only returns the streams that it would apply to.
    async fn each_page(
        &self,
        reaction: &str,
        remedy: Remedy,
        which: StreamSelection,
        rehearsal: bool,
    ) -> Result<Vec<String>, Error> {
        let follower = self.follower(reaction).await?;
        let repair = Repair { ws: self.ws(), follower, remedy, which };
        let (mut mended, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
        loop {
            let find = |draft: &Draft| repair.find(draft, after.as_deref(), MEND);
            let streams = self.question(find).await?;
            let Some(last) = streams.last() else { return Ok(mended) };
            after = Some(last.clone());
            let command = StreamCommand::Repair { repair: repair.clone(), streams };
            let command = Command::Stream { ws: self.ws(), command };
            let answer =
                if rehearsal { self.would(command).await? } else { self.ask(command).await? };
            match answer {
                Answer::Stream(StreamAnswer::Repaired(streams)) => mended.extend(streams),
                other => return Err(unexpected(&other)),
            }
        }
    }

    async fn follower(&self, reaction: &str) -> Result<Follower, Error> {
        let snapshot = self.store().read(ReadSet::default().catalog(&self.ws())).await?;
        let catalog = snapshot.catalogs.get(&self.ws());
        let known = catalog.and_then(|catalog| catalog.reaction(reaction));
        known.map(Follower::from).ok_or_else(|| Refusal::NoReaction(reaction.to_owned()).into())
    }

    /// Submits a command about streams.
    pub(super) async fn ask_streams(&self, command: StreamCommand) -> Result<StreamAnswer, Error> {
        match self.ask(Command::Stream { ws: self.ws(), command }).await? {
            Answer::Stream(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Evaluates a read-only query, without a lock.
    pub(super) async fn question<T, E: Into<Refusal>>(
        &self,
        question: impl Fn(&Draft) -> Decided<T, E>,
    ) -> Result<T, Error> {
        let mut reads = ReadSet::default();
        for _ in 0..MAX_ROUNDS {
            let draft = Draft::new(self.store().read(reads.clone()).await?);
            match question(&draft) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Refused(refusal)) => return Err(Error::Refused(refusal.into())),
                Err(Stop::Need(more)) => reads.merge(*more),
                Err(Stop::Full) => break,
            }
        }
        Err(StoreError::TooManyRounds.into())
    }
}
