//! Looking at the streams of reactions, and doing something about those that are stuck.

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

/// How many streams are mended in one transaction.
const MEND: usize = 200;

/// How many places are read at once, and how many of them before a page is given as it is.
const READ: u32 = 1000;
const MOST_READ: usize = 20_000;

/// Which places of reactions are asked for.
#[derive(Clone, Debug, Default)]
pub struct StreamQuery {
    /// Of one reaction; of all, if none is given.
    pub reaction: Option<String>,
    /// Restricts them further.
    pub filter: Filter,
    /// Those after the last of the page before: its `next`.
    pub after: Option<(String, String)>,
    /// How many at the most; 100, if 0 is given.
    pub limit: usize,
}

/// Some of the places that were asked for, by reaction and stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPage {
    /// The places.
    pub streams: Vec<StreamView>,
    /// Where the next page begins; none after the last. A page may be shorter than its limit.
    pub next: Option<(String, String)>,
}

/// How far a reaction is in a stream, and what keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// The reaction.
    pub reaction: String,
    /// The stream.
    pub stream: String,
    /// The version of the last event that it is done with; -1 at the start.
    pub position: i64,
    /// The version of the last event there is for it.
    pub want: i64,
    /// Failures in a row.
    pub failures: u32,
    /// Claims in a row without progress.
    pub claims: u32,
    /// Why nothing more is done until it is unblocked.
    pub blocked: Option<String>,
    /// What the last failure said.
    pub error: Option<String>,
    /// Who holds a lease.
    pub holder: Option<EngineId>,
    /// When that lease ends, unless it is renewed.
    pub lease_end: Option<Timestamp>,
    /// Not before: backoff or deferral.
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

/// Operating reactions.
impl Engine {
    /// Lets blocked streams of a reaction go on behind the last event that was acked; says which.
    pub async fn unblock(
        &self,
        reaction: &str,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Unblock, which).await
    }

    /// Has streams of a reaction handled again from their first event, blocked or not; says which.
    /// All of them only by [`Which::All`].
    pub async fn reset(
        &self,
        reaction: &str,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Reset, which).await
    }

    /// Puts streams of a reaction off until a moment, but for those that are being worked on;
    /// says which.
    pub async fn defer(
        &self,
        reaction: &str,
        which: StreamSelection,
        until: Timestamp,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Defer(until), which).await
    }

    /// Gives streams of a reaction the next turn, once, but for those that are being worked on;
    /// says which.
    pub async fn prioritize(
        &self,
        reaction: &str,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.mend(reaction, Remedy::Prioritize, which).await
    }

    /// Which streams of a reaction a remedy would be given to right now, without any effect.
    pub async fn rehearse(
        &self,
        reaction: &str,
        remedy: Remedy,
        which: StreamSelection,
    ) -> Result<Vec<String>, Error> {
        self.each_page(reaction, remedy, which, true).await
    }

    /// The reactions of the workspace by name, whoever runs them.
    pub async fn reactions(&self) -> Result<Vec<Reaction>, Error> {
        let snapshot = self.store().read(ReadSet::default().catalog(&self.ws())).await?;
        let catalog = snapshot.catalogs.get(&self.ws());
        Ok(catalog.into_iter().flat_map(|catalog| catalog.reactions().cloned()).collect())
    }

    /// How far reactions are, a page at a time. Takes no lease and no lock.
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

    /// Finds what is meant page by page, and mends each page, or only says what would be mended.
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

    /// Has a command about streams decided.
    pub(super) async fn ask_streams(&self, command: StreamCommand) -> Result<StreamAnswer, Error> {
        match self.ask(Command::Stream { ws: self.ws(), command }).await? {
            Answer::Stream(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks something that changes nothing, without a lock.
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
