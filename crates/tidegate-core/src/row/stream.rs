//! The stream rows: heads, events and the places of reactions.

use serde::{Deserialize, Serialize};

use super::{EngineId, Workspace};
use crate::{
    id::{EventId, Seq},
    json::Payload,
    time::Timestamp,
};

/// A stream's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The workspace.
    pub ws: Workspace,
    /// The stream's name.
    pub name: String,
    /// Its number, by which its events are filed.
    pub id: Seq,
    /// The version of the last event; -1 when there is none.
    pub head: i64,
    /// Ended by a guard: nothing more is committed.
    pub closed: bool,
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamEventRow {
    /// The stream's number.
    pub stream: Seq,
    /// The version, from 0 without a gap.
    pub version: i64,
    /// The workspace.
    pub ws: Workspace,
    /// The global position, visible in order.
    pub pos: i64,
    /// The event's id.
    pub id: EventId,
    /// The event's name.
    pub name: String,
    /// When it was committed.
    pub at: Timestamp,
    /// The data as it was given.
    pub data: Payload,
    /// Correlation, causation and whatever else the caller adds.
    pub meta: Payload,
}

/// What a stream had come to at a version: whoever folds it begins here instead of at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSnapshot {
    /// The stream's number: a restarted stream has another.
    pub stream: Seq,
    /// What folded it, and into which shape: no other can read it.
    pub kind: String,
    /// The version of the last event in it.
    pub version: i64,
    /// The state.
    pub body: Payload,
}

/// A reaction's place in one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The workspace.
    pub ws: Workspace,
    /// The reaction.
    pub reaction: String,
    /// The stream's name.
    pub stream: String,
    /// The stream's number that the versions below belong to: a restarted stream has another.
    pub log: Seq,
    /// The version of the last event that it is done with; -1 at the start.
    pub at: i64,
    /// The greatest version committed for it.
    pub want: i64,
    /// Who holds the lease.
    pub owner: Option<EngineId>,
    /// Grows with every lease.
    pub fence: i64,
    /// When the lease ends.
    pub until: Option<Timestamp>,
    /// Not before: backoff or deferral.
    pub due: Option<Timestamp>,
    /// Since when it has waited for its turn, for fairness: the least is served first.
    pub since: Timestamp,
    /// Failures in a row; reset by progress.
    pub failures: u32,
    /// Claims in a row without progress.
    pub claims: u32,
    /// What the last failure said; gone with progress.
    pub error: Option<String>,
    /// Why nothing more is claimed until it is unblocked.
    pub blocked: Option<String>,
}

/// How far a place's `since` may be ahead of a clock that has not stepped back: claims within one
/// moment move it on by a microsecond each. The statements `sub_work` have the same number.
const STEP_MS: u64 = 1000;

impl Subscription {
    /// The place of a reaction that has seen nothing of a stream yet.
    pub fn new(stream: &Stream, reaction: &str) -> Self {
        Self {
            ws: stream.ws.clone(),
            reaction: reaction.to_owned(),
            stream: stream.name.clone(),
            log: stream.id,
            at: -1,
            want: -1,
            owner: None,
            fence: 0,
            until: None,
            due: None,
            since: Timestamp::default(),
            failures: 0,
            claims: 0,
            error: None,
            blocked: None,
        }
    }

    /// Whether there are events that it is not done with.
    pub fn has_work(&self) -> bool {
        self.want > self.at
    }

    /// Who holds a lease that has not ended.
    pub fn holder(&self, now: Timestamp) -> Option<EngineId> {
        self.owner.filter(|_| self.until.is_some_and(|until| until > now))
    }

    /// Whether [`Scan::Work`](crate::reads::Scan::Work) finds it: a claim may take it, or has to
    /// cap its times.
    pub fn is_work(&self, now: Timestamp) -> bool {
        self.is_claimable(now) || self.is_ahead(now)
    }

    /// Whether it has work and was written before the clock stepped back.
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        self.has_work() && self.blocked.is_none() && self.since > now.plus_ms(STEP_MS)
    }

    /// Whether a claim may take it.
    pub fn is_claimable(&self, now: Timestamp) -> bool {
        self.has_work()
            && self.blocked.is_none()
            && self.holder(now).is_none()
            && self.due.is_none_or(|due| due <= now)
    }
}
