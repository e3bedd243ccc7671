//! Verdicts: the result of admission for one event and one workflow, as callers see it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    id::{EventId, RunId},
    row::{Ending, GateKey, Scope},
    time::{Timestamp, rfc3339::OptionalTime},
};

/// Name that is given instead of a control if a run has entered all gates and waits for a worker.
pub const WORKERS: super::Word = "workers";

/// The outcome of a request that is delivered later.
pub const DEFERRED: &str = "deferred";

/// Name that is given instead of a control if the condition of a trigger cannot be evaluated.
pub const TRIGGERS: super::Word = "triggers";

/// Control that decided, with its gate and the key in the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "GateKey", into = "GateKey")]
pub struct By {
    /// The control's name.
    pub control: super::Word,
    /// The gate.
    pub gate: GateKey,
    /// The displayed key.
    pub key: String,
    /// The pool that the gate belongs to, if it is no gate of a workflow.
    pub pool: Option<String>,
}

impl By {
    /// Describes the gate of a scope.
    pub fn scope(scope: &Scope) -> Self {
        let (control, pool) = (scope.class.control(), scope.pool().map(str::to_owned));
        Self { control, gate: GateKey::new(scope), key: scope.shown_key(), pool }
    }

    /// Describes a gate by its key.
    pub fn gate(gate: &GateKey) -> Self {
        match gate.scope() {
            Some(scope) => Self::scope(&scope),
            None => {
                let (key, pool) = (String::new(), None);
                Self { control: "unknown", gate: gate.clone(), key, pool }
            }
        }
    }

    /// Returns the control with its pool, if it belongs to one.
    pub fn limiter(&self) -> String {
        match &self.pool {
            Some(pool) => format!("{} of pool `{pool}`", self.control),
            None => self.control.to_owned(),
        }
    }
}

impl From<GateKey> for By {
    fn from(gate: GateKey) -> Self {
        Self::gate(&gate)
    }
}

impl From<By> for GateKey {
    fn from(by: By) -> Self {
        by.gate
    }
}

/// Result of admission for one event and one workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Verdict {
    /// The run is ready to be driven.
    Started {
        /// The run.
        run: RunId,
    },
    /// The run is admitted, and queued at a gate.
    Queued {
        /// The run.
        run: RunId,
        /// The gate.
        by: By,
        /// The estimated time of the start, if the run waits for a throttle.
        start_at: Option<Timestamp>,
    },
    /// The run is ready to be driven, but the engine that admitted it has no free worker.
    WaitsForWorker {
        /// The run.
        run: RunId,
    },
    /// The request is delivered later, with this run.
    Deferred {
        /// The run.
        run: RunId,
        /// When the request is delivered.
        deliver_at: Timestamp,
    },
    /// The event joined a window.
    Coalesced {
        /// The run that will have the last event as its input.
        run: RunId,
        /// The window.
        by: By,
        /// When the window fires if no further event arrives.
        fire_at: Timestamp,
    },
    /// The event joined a buffer.
    Buffered {
        /// The run that will have the event in its input.
        run: RunId,
        /// The buffer.
        by: By,
        /// Number of events in the buffer.
        pending: u32,
        /// The latest time at which the buffer is flushed.
        flush_at: Timestamp,
    },
    /// The event was over a rate limit.
    Dropped {
        /// The meter.
        by: By,
        /// The time from which on the same event would be admitted.
        retry_at: Timestamp,
    },
    /// Another run holds the gate, so that no run was created.
    Skipped {
        /// The gate.
        by: By,
        /// The run that holds the gate.
        holder: RunId,
    },
    /// An earlier event has claimed the key.
    Deduped {
        /// The claim.
        by: By,
        /// The earlier event.
        first: EventId,
        /// The run of the earlier event.
        run: Option<RunId>,
    },
    /// The run replaced another run.
    Replaced {
        /// The run.
        run: RunId,
        /// The gate.
        by: By,
        /// The run that was cancelled.
        replaced: RunId,
    },
    /// A key that this workflow requires is missing or is not valid.
    Rejected {
        /// The control.
        #[serde(deserialize_with = "super::word")]
        control: super::Word,
        /// The path, and the problem with it.
        reason: String,
    },
    /// The queue of the gate is full, so that no run was created.
    QueueFull {
        /// The gate.
        by: By,
        /// Number of waiting runs.
        waiting: u32,
    },
    /// The parent of the run or another ancestor holds the gate.
    HeldByAncestor {
        /// The gate.
        by: By,
        /// The ancestor.
        holder: RunId,
    },
}

impl Verdict {
    /// Returns the run that has the event as its input, if there is one.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Started { run }
            | Self::WaitsForWorker { run }
            | Self::Queued { run, .. }
            | Self::Deferred { run, .. }
            | Self::Coalesced { run, .. }
            | Self::Buffered { run, .. }
            | Self::Replaced { run, .. } => Some(*run),
            Self::Dropped { .. }
            | Self::Skipped { .. }
            | Self::Deduped { .. }
            | Self::Rejected { .. }
            | Self::QueueFull { .. }
            | Self::HeldByAncestor { .. } => None,
        }
    }

    /// Returns the same as [`Verdict::run`]; for a deduped event, the run of the first event.
    pub fn carrier(&self) -> Option<RunId> {
        if let Self::Deduped { run, .. } = self { *run } else { self.run() }
    }

    /// Returns the word for the verdict in answers, receipts and the console.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Queued { .. } | Self::WaitsForWorker { .. } => "queued",
            Self::Deferred { .. } => DEFERRED,
            Self::Coalesced { .. } => "coalesced",
            Self::Buffered { .. } => "buffered",
            Self::Dropped { .. } => "dropped",
            Self::Skipped { .. } => "skipped",
            Self::Deduped { .. } => "deduped",
            Self::Replaced { .. } => "replaced",
            Self::Rejected { .. } | Self::QueueFull { .. } | Self::HeldByAncestor { .. } => {
                "rejected"
            }
        }
    }

    /// Returns the gate that decided, if one did.
    pub fn by(&self) -> Option<&By> {
        match self {
            Self::Queued { by, .. }
            | Self::Coalesced { by, .. }
            | Self::Buffered { by, .. }
            | Self::Dropped { by, .. }
            | Self::Skipped { by, .. }
            | Self::Deduped { by, .. }
            | Self::Replaced { by, .. }
            | Self::QueueFull { by, .. }
            | Self::HeldByAncestor { by, .. } => Some(by),
            Self::Started { .. }
            | Self::WaitsForWorker { .. }
            | Self::Deferred { .. }
            | Self::Rejected { .. } => None,
        }
    }

    /// Returns the control that a queued run waits for.
    pub fn waits_for(&self) -> Option<super::Word> {
        match self {
            Self::Queued { by, .. } => Some(by.control),
            Self::WaitsForWorker { .. } => Some(WORKERS),
            Self::Started { .. }
            | Self::Deferred { .. }
            | Self::Coalesced { .. }
            | Self::Buffered { .. }
            | Self::Dropped { .. }
            | Self::Skipped { .. }
            | Self::Deduped { .. }
            | Self::Replaced { .. }
            | Self::Rejected { .. }
            | Self::QueueFull { .. }
            | Self::HeldByAncestor { .. } => None,
        }
    }

    /// Returns the verdict in the form that callers read (spec verdicts).
    pub fn view(&self) -> VerdictView {
        let (outcome, by) = (self.outcome(), self.by());
        let is = |word: &str| (outcome == word).then_some(true);
        let view = VerdictView {
            outcome,
            dropped: is("dropped"),
            skipped: is("skipped"),
            deduped: is("deduped"),
            run_id: self.run(),
            control: by.map(|by| by.control),
            key: by.map(|by| by.key.clone()),
            pool: by.and_then(|by| by.pool.clone()),
            ..VerdictView::default()
        };
        match self {
            Self::Started { .. } => view,
            Self::WaitsForWorker { .. } => VerdictView { control: Some(WORKERS), ..view },
            Self::Queued { start_at, .. } => VerdictView { start_at: *start_at, ..view },
            Self::Deferred { deliver_at, .. } => {
                VerdictView { deliver_at: Some(*deliver_at), ..view }
            }
            Self::Coalesced { fire_at, .. } => VerdictView { fire_at: Some(*fire_at), ..view },
            Self::Buffered { pending, flush_at, .. } => {
                VerdictView { pending: Some(*pending), flush_at: Some(*flush_at), ..view }
            }
            Self::Dropped { retry_at, .. } => VerdictView { retry_at: Some(*retry_at), ..view },
            Self::Skipped { holder, .. } => VerdictView { holder: Some(*holder), ..view },
            Self::Deduped { first, run, .. } => {
                VerdictView { first: Some(*first), first_run_id: *run, ..view }
            }
            Self::Replaced { replaced, .. } => VerdictView { replaced: Some(*replaced), ..view },
            Self::Rejected { control, reason } => {
                VerdictView { control: Some(control), error: Some(reason.clone()), ..view }
            }
            Self::QueueFull { waiting, .. } => {
                let error = Some("QueueFull".to_owned());
                VerdictView { waiting: Some(*waiting), error, ..view }
            }
            Self::HeldByAncestor { holder, .. } => {
                let error = Some("HeldByAncestor".to_owned());
                VerdictView { holder: Some(*holder), error, ..view }
            }
        }
    }

    /// Returns the JSON of [`Verdict::view`], as it is stored in receipts.
    pub fn to_value(&self) -> Value {
        json!(self.view())
    }
}

/// Words for the outcome of an event: all that [`Verdict::outcome`] returns, and those in receipts
/// of runs that were cancelled before they started, or by an event.
pub const OUTCOMES: [&str; 13] = [
    "started",
    "queued",
    DEFERRED,
    "coalesced",
    "buffered",
    "dropped",
    "skipped",
    "deduped",
    "replaced",
    "rejected",
    Ending::EXPIRED,
    Ending::DISPLACED,
    Ending::CANCELLED,
];

/// Verdict in the form that callers read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Verdict"))]
#[serde(rename_all = "camelCase")]
pub struct VerdictView {
    /// The word for the outcome.
    #[cfg_attr(feature = "schemars", schemars(extend("enum" = OUTCOMES)))]
    pub outcome: &'static str,
    /// Present if the outcome is `dropped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<bool>,
    /// Present if the outcome is `skipped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<bool>,
    /// Present if the outcome is `deduped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduped: Option<bool>,
    /// The run that has the event in its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The control that decided; `workers` for a run that waits for a free worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<super::Word>,
    /// The value of the control's key in the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The pool that the control's limit belongs to, if it is no limit of the workflow itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The estimated time of the start, if the run waits for a throttle.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub start_at: Option<Timestamp>,
    /// When a deferred request is delivered.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub deliver_at: Option<Timestamp>,
    /// When the window of a coalesced event fires if no further event arrives.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub fire_at: Option<Timestamp>,
    /// Number of events in the buffer of a buffered event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<u32>,
    /// The latest time at which the buffer is flushed.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub flush_at: Option<Timestamp>,
    /// The time from which on the same event would no longer be dropped.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub retry_at: Option<Timestamp>,
    /// The run that holds the gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<RunId>,
    /// The earlier event with the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<EventId>,
    /// The run of the earlier event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_run_id: Option<RunId>,
    /// The run that was cancelled because this run replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<RunId>,
    /// Number of runs in the queue that refused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
    /// The event that has cancelled the run (`cancelOn`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<EventId>,
    /// The reason why the event was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
