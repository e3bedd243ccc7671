//! Rows of streams: heads, events, snapshots and subscriptions of reactions.

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
    /// The stream's number, which is part of the keys of its events.
    pub id: Seq,
    /// The version of the last event; -1 if there is none.
    pub head: i64,
    /// Whether a guard event has closed the stream, so that no more events can be committed.
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
    /// The position among all events of the workspace. Readers see positions in order.
    pub pos: i64,
    /// The event's id.
    pub id: EventId,
    /// The event's name.
    pub name: String,
    /// When the event was committed.
    pub at: Timestamp,
    /// The payload, byte for byte.
    pub data: Payload,
    /// Correlation id, causation id and any other metadata of the caller.
    pub meta: Payload,
}

/// Snapshot: the state of a stream at a version, computed from its events. Loading the stream
/// begins here and not at the first event.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSnapshot {
    /// The stream's number. A restarted stream has a new number.
    pub stream: Seq,
    /// The type of the state and the version of its schema. Snapshots of another kind cannot be
    /// read.
    pub kind: String,
    /// The version of the last event that the state includes.
    pub version: i64,
    /// The state.
    pub body: Payload,
}

/// Subscription: the cursor and the lease of a reaction in one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// The workspace.
    pub ws: Workspace,
    /// The reaction.
    pub reaction: String,
    /// The stream's name.
    pub stream: String,
    /// The number of the stream to which `at` and `want` belong. A restarted stream has a new
    /// number.
    pub log: Seq,
    /// The version of the last processed event; -1 at the start.
    pub at: i64,
    /// The version of the last committed event.
    pub want: i64,
    /// The engine that holds the lease.
    pub owner: Option<EngineId>,
    /// The fence; it grows with every lease.
    pub fence: i64,
    /// When the lease ends.
    pub until: Option<Timestamp>,
    /// The earliest time of the next claim, after a failure or a deferral.
    pub due: Option<Timestamp>,
    /// When the subscription began to wait. The one with the earliest time is claimed first.
    pub since: Timestamp,
    /// Number of consecutive failures; progress resets it.
    pub failures: u32,
    /// Number of consecutive claims without progress.
    pub claims: u32,
    /// The message of the last failure; progress clears it.
    pub error: Option<String>,
    /// The reason why the subscription is blocked. It is not claimed until it is unblocked.
    pub blocked: Option<String>,
}

/// Maximum time by which `since` may be ahead of the clock if the clock has not stepped back. It
/// can be ahead because several claims at the same time advance it by a microsecond each. The SQL
/// statements `sub_work` have the same number.
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

    /// Whether [`Scan::Work`](crate::reads::Scan::Work) finds the subscription: it can be claimed,
    /// or its times must be capped.
    pub fn is_work(&self, now: Timestamp) -> bool {
        self.is_claimable(now) || self.is_ahead(now)
    }

    /// Whether the subscription has unprocessed events and was written before the clock stepped
    /// back.
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        self.has_work() && self.blocked.is_none() && self.since > now.plus_ms(STEP_MS)
    }

    /// Whether the subscription can be claimed.
    pub fn is_claimable(&self, now: Timestamp) -> bool {
        self.has_work()
            && self.blocked.is_none()
            && self.holder(now).is_none()
            && self.due.is_none_or(|due| due <= now)
    }
}
