//! The input rows: events, batches, waits, signals and receipts.

use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::{
    id::{EventId, Seq},
    json::Payload,
    time::Timestamp,
};

/// Origin of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "RunSource"))]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Posted: listed, and wakes waiters.
    Event,
    /// A call of an action.
    Request,
    /// An occurrence of a schedule.
    Cron,
    /// A parent's call.
    Invoke,
}

/// An immutable input: a posted event, a request, an occurrence or a parent's call.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The event's id.
    pub id: EventId,
    /// The workspace.
    pub ws: Workspace,
    /// The origin.
    pub kind: Kind,
    /// The event's name, or the called workflow or action.
    pub name: String,
    /// When it was accepted.
    pub at: Timestamp,
    /// The time of the event according to its sender.
    pub ts: Option<Timestamp>,
    /// The payload, as it was sent.
    pub data: Payload,
}

/// Position of an event in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The run that will get the event.
    pub run: Seq,
    /// The position, from 0.
    pub n: u32,
    /// The event.
    pub event: EventId,
}

/// Wait of a run for an event of a name, filed under one field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// The workspace.
    pub ws: Workspace,
    /// The event's name.
    pub name: String,
    /// The path to the field; empty when any event of the name matches.
    pub path: String,
    /// The encoded value that is expected there.
    pub value: Vec<u8>,
    /// The run.
    pub run: Seq,
    /// The run's step.
    pub step: String,
}

/// Path that waits for this name are filed under, so that an event knows which paths to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitPath {
    /// The workspace.
    pub ws: Workspace,
    /// The event's name.
    pub name: String,
    /// The path; empty for waits without a match.
    pub path: String,
}

/// Signal kept until its run receives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The run.
    pub run: Seq,
    /// The signal's name.
    pub name: String,
    /// The signal's position in the inbox.
    pub seq: Seq,
    /// The payload.
    pub data: Payload,
}

/// Durable record of a verdict other than a plain start.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The receipt's number.
    pub seq: Seq,
    /// The workspace.
    pub ws: Workspace,
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The key that the deciding control evaluated, for display.
    pub key: String,
    /// The event that the verdict is about.
    pub event: Seq,
    /// When the verdict was decided.
    pub at: Timestamp,
    /// The verdict as it was returned to the caller.
    pub verdict: serde_json::Value,
}
