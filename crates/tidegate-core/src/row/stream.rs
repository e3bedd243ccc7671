//! Stream rows: heads, events, snapshots and the cursors of reactions.

use serde::{Deserialize, Serialize};

use super::{EngineId, Workspace};
use crate::{
    id::{EventId, Seq},
    json::Payload,
    time::Timestamp,
};

/// Head of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The workspace.
    pub ws: Workspace,
    /// The stream's name.
    pub name: String,
    /// The stream's number, by which its events are filed.
    pub id: Seq,
    /// The version of the last event; -1 when there is none.
    pub head: i64,
    /// Whether a guard has closed the stream: nothing more is committed.
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
    /// The payload as it was given.
    pub data: Payload,
    /// Correlation id, causation id and any other metadata of the caller.
    pub meta: Payload,
}

/// Folded state of a stream at a version: a fold starts here instead of at the first event.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSnapshot {
    /// The stream's number: a restarted stream has a new one.
    pub stream: Seq,
    /// The fold, and the schema of its state: no other fold can read it.
    pub kind: String,
    /// The version of the last folded event.
    pub version: i64,
    /// The state.
    pub body: Payload,
}

/// Cursor of a reaction in one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The workspace.
    pub ws: Workspace,
    /// The reaction.
    pub reaction: String,
    /// The stream's name.
    pub stream: String,
    /// The stream's number that the versions below belong to: a restarted stream has a new one.
    pub log: Seq,
    /// The version of the last processed event; -1 at the start.
    pub at: i64,
    /// The greatest version committed for the reaction.
    pub want: i64,
    /// The engine that holds the lease.
    pub owner: Option<EngineId>,
    /// Grows with every lease.
    pub fence: i64,
    /// When the lease ends.
    pub until: Option<Timestamp>,
    /// The earliest time of the next claim: backoff or deferral.
    pub due: Option<Timestamp>,
    /// When the subscription began to wait for its turn, for fairness: the earliest is served
    /// first.
    pub since: Timestamp,
    /// Consecutive failures; reset by progress.
    pub failures: u32,
    /// Consecutive claims without progress.
    pub claims: u32,
    /// The message of the last failure; cleared by progress.
    pub error: Option<String>,
    /// The reason why nothing more is claimed until the subscription is unblocked.
    pub blocked: Option<String>,
}

/// How far a subscription's `since` may be ahead of a clock that has not stepped back: each claim
/// at the same time advances it by a microsecond. The statements `sub_work` have the same number.
const STEP_MS: u64 = 1000;

impl Subscription {
    /// Creates the subscription of a reaction that has processed no event of a stream yet.
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

    /// Whether there are unprocessed events.
    pub fn has_work(&self) -> bool {
        self.want > self.at
    }

    /// Returns the holder of a lease that has not expired.
    pub fn holder(&self, now: Timestamp) -> Option<EngineId> {
        self.owner.filter(|_| self.until.is_some_and(|until| until > now))
    }

    /// Whether [`Scan::Work`](crate::reads::Scan::Work) finds the subscription: a claim may take
    /// it, or has to cap its times.
    pub fn is_work(&self, now: Timestamp) -> bool {
        self.is_claimable(now) || self.is_ahead(now)
    }

    /// Whether the subscription has work and was written before the clock stepped back.
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        self.has_work() && self.blocked.is_none() && self.since > now.plus_ms(STEP_MS)
    }

    /// Whether a claim may take the subscription.
    pub fn is_claimable(&self, now: Timestamp) -> bool {
        self.has_work()
            && self.blocked.is_none()
            && self.holder(now).is_none()
            && self.due.is_none_or(|due| due <= now)
    }
}
