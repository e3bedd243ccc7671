//! Verdicts: the result of admission for one event and one workflow, in the user's words.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    id::{EventId, RunId},
    row::{GateKey, Scope},
    time::Timestamp,
};

/// Name, in the place of a control, for the wait of a run that has passed all gates.
pub const WORKERS: super::Word = "workers";

/// Control that decided, and the key that it saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "GateKey", into = "GateKey")]
pub struct By {
    /// The control's name.
    pub control: super::Word,
    /// The gate.
    pub gate: GateKey,
    /// The displayed key.
    pub key: String,
}

impl By {
    /// Describes the gate of a scope.
    pub fn scope(scope: &Scope) -> Self {
        Self { control: scope.class.control(), gate: GateKey::new(scope), key: scope.shown_key() }
    }

    /// Describes a gate by its key.
    pub fn gate(gate: &GateKey) -> Self {
        match gate.scope() {
            Some(scope) => Self::scope(&scope),
            None => Self { control: "unknown", gate: gate.clone(), key: String::new() },
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
        /// The estimated start, where a throttle gives one.
        start_at: Option<Timestamp>,
    },
    /// The run is ready to be driven, but the engine that admitted it has no free worker.
    WaitsForWorker {
        /// The run.
        run: RunId,
    },
    /// The event joined a window.
    Coalesced {
        /// The run that will carry the last event.
        run: RunId,
        /// The window.
        by: By,
        /// When the window fires if no further event arrives.
        fire_at: Timestamp,
    },
    /// The event joined a buffer.
    Buffered {
        /// The run that will carry the event.
        run: RunId,
        /// The buffer.
        by: By,
        /// Number of events in the buffer.
        pending: u32,
        /// When the buffer flushes at the latest.
        flush_at: Timestamp,
    },
    /// The event was over a rate limit.
    Dropped {
        /// The meter.
        by: By,
        /// When the same event would be admitted.
        retry_at: Timestamp,
    },
    /// Another run is inside the gate.
    Skipped {
        /// The gate.
        by: By,
        /// The run inside.
        holder: RunId,
    },
    /// An earlier event has the claim.
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
    /// A key that this workflow requires is missing or cannot be read.
    Rejected {
        /// The control.
        #[serde(deserialize_with = "super::word")]
        control: super::Word,
        /// The path, and the problem with it.
        reason: String,
    },
    /// The gate is held by the caller or by one of the caller's own callers.
    HeldByAncestor {
        /// The gate.
        by: By,
        /// The ancestor.
        holder: RunId,
    },
}

impl Verdict {
    /// Returns the run that carries the event, where there is one.
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Started { run }
            | Self::WaitsForWorker { run }
            | Self::Queued { run, .. }
            | Self::Coalesced { run, .. }
            | Self::Buffered { run, .. }
            | Self::Replaced { run, .. } => Some(*run),
            Self::Dropped { .. }
            | Self::Skipped { .. }
            | Self::Deduped { .. }
            | Self::Rejected { .. }
            | Self::HeldByAncestor { .. } => None,
        }
    }

    /// As [`Verdict::run`]; for a deduped event, the run of the first event.
    pub fn carrier(&self) -> Option<RunId> {
        if let Self::Deduped { run, .. } = self { *run } else { self.run() }
    }

    /// Returns the word that callers, receipts and the console use.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Queued { .. } | Self::WaitsForWorker { .. } => "queued",
            Self::Coalesced { .. } => "coalesced",
            Self::Buffered { .. } => "buffered",
            Self::Dropped { .. } => "dropped",
            Self::Skipped { .. } => "skipped",
            Self::Deduped { .. } => "deduped",
            Self::Replaced { .. } => "replaced",
            Self::Rejected { .. } | Self::HeldByAncestor { .. } => "rejected",
        }
    }

    /// Returns the gate that decided, where one did.
    pub fn by(&self) -> Option<&By> {
        match self {
            Self::Queued { by, .. }
            | Self::Coalesced { by, .. }
            | Self::Buffered { by, .. }
            | Self::Dropped { by, .. }
            | Self::Skipped { by, .. }
            | Self::Deduped { by, .. }
            | Self::Replaced { by, .. }
            | Self::HeldByAncestor { by, .. } => Some(by),
            Self::Started { .. } | Self::WaitsForWorker { .. } | Self::Rejected { .. } => None,
        }
    }

    /// Returns the control that a queued run waits for.
    pub fn waits_for(&self) -> Option<super::Word> {
        match self {
            Self::Queued { by, .. } => Some(by.control),
            Self::WaitsForWorker { .. } => Some(WORKERS),
            Self::Started { .. }
            | Self::Coalesced { .. }
            | Self::Buffered { .. }
            | Self::Dropped { .. }
            | Self::Skipped { .. }
            | Self::Deduped { .. }
            | Self::Replaced { .. }
            | Self::Rejected { .. }
            | Self::HeldByAncestor { .. } => None,
        }
    }

    /// Returns the verdict in the form that callers read (spec verdicts).
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        let outcome = self.outcome();
        out.insert("outcome".into(), outcome.into());
        if matches!(outcome, "dropped" | "skipped" | "deduped") {
            out.insert(outcome.into(), true.into());
        }
        if let Some(run) = self.run() {
            out.insert("runId".into(), json!(run));
        }
        if let Some(by) = self.by() {
            out.insert("control".into(), by.control.into());
            out.insert("key".into(), by.key.clone().into());
        }
        let mut add = |name: &str, value: Value| out.insert(name.into(), value);
        match self {
            Self::Started { .. } => {}
            Self::WaitsForWorker { .. } => drop(add("control", WORKERS.into())),
            Self::Queued { start_at, .. } => {
                if let Some(at) = start_at {
                    add("startAt", json!(at.rfc3339()));
                }
            }
            Self::Coalesced { fire_at, .. } => drop(add("fireAt", json!(fire_at.rfc3339()))),
            Self::Buffered { pending, flush_at, .. } => {
                add("pending", json!(pending));
                add("flushAt", json!(flush_at.rfc3339()));
            }
            Self::Dropped { retry_at, .. } => drop(add("retryAt", json!(retry_at.rfc3339()))),
            Self::Skipped { holder, .. } => drop(add("holder", json!(holder))),
            Self::Deduped { first, run, .. } => {
                add("first", json!(first));
                if let Some(run) = run {
                    add("firstRunId", json!(run));
                }
            }
            Self::Replaced { replaced, .. } => drop(add("replaced", json!(replaced))),
            Self::Rejected { control, reason } => {
                add("control", json!(control));
                add("error", json!(reason));
            }
            Self::HeldByAncestor { holder, .. } => {
                add("holder", json!(holder));
                add("error", json!("HeldByAncestor"));
            }
        }
        Value::Object(out)
    }
}
