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
    /// A posted event. Only posted events are listed and wake waiting runs.
    Event,
    /// A call of an action.
    Request,
    /// An occurrence of a schedule.
    Cron,
    /// A call of a child run by its parent.
    Invoke,
}

/// Input of runs: a posted event, a request, an occurrence or a call by a parent. Only its delivery
/// changes, under the lock of the chore that delivers it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The event's id.
    pub id: EventId,
    /// The workspace.
    pub ws: Workspace,
    /// The origin.
    pub kind: Kind,
    /// The name of the event, or of the called workflow or action.
    pub name: String,
    /// When the input was accepted.
    pub at: Timestamp,
    /// The time of the event according to its sender.
    pub ts: Option<Timestamp>,
    /// The payload, as it was sent.
    pub data: Payload,
    /// The delivery, if the input was deferred; none if it was admitted when it arrived.
    pub delivery: Option<Delivery>,
    /// Further members of the event, as a JSON object: its user, its version, its metadata.
    pub attributes: Option<Payload>,
}

impl Event {
    /// Returns the whole event as a JSON object: `id`, `name`, `data`, `ts` in milliseconds, and
    /// the members of its attributes, of which an `id` stands for that of the engine.
    pub fn whole(&self) -> Payload {
        let ts = self.ts.unwrap_or(self.at).micros().div_euclid(1000);
        let attributes = self.attributes.as_ref();
        let names_itself = attributes.is_some_and(|it| it.select(&["id".to_owned()]).is_some());
        let id = if names_itself { String::new() } else { format!("\"id\":\"{}\",", self.id) };
        let name = serde_json::Value::from(self.name.as_str());
        let data = &self.data;
        let members = attributes.map_or("", |it| it.as_str().trim());
        let members = members.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let members = members.map_or("", str::trim);
        let comma = if members.is_empty() { "" } else { "," };
        let text = format!("{{{id}\"name\":{name},\"data\":{data},\"ts\":{ts}{comma}{members}}}");
        Payload::trusted(text)
    }

    /// Returns the number by which waits, listeners and limits from data order events: that of the
    /// delivery, if the event was deferred.
    pub fn number(&self) -> Seq {
        match self.delivery {
            Some(Delivery { end: Some(DeliveryEnd::Delivered { number, .. }), .. }) => number,
            Some(_) | None => self.id.seq,
        }
    }

    /// Returns when the event was admitted: at its delivery, if it was deferred.
    pub fn admitted_at(&self) -> Timestamp {
        let end = self.delivery.and_then(|delivery| delivery.end);
        end.map_or(self.at, DeliveryEnd::at)
    }

    /// Whether the event waits for its delivery.
    pub fn is_deferred(&self) -> bool {
        self.delivery.is_some_and(|delivery| delivery.end.is_none())
    }
}

/// Delivery of an event or a request that was deferred (spec L23).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The time before which it is not delivered.
    pub at: Timestamp,
    /// The end of the delivery; none while the event waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<DeliveryEnd>,
}

/// End of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeliveryEnd {
    /// The event was delivered.
    Delivered {
        /// The number of the delivery.
        number: Seq,
        /// The time of the delivery.
        at: Timestamp,
    },
    /// The event was cancelled before.
    Cancelled {
        /// The time of the cancellation.
        at: Timestamp,
    },
}

impl DeliveryEnd {
    /// The word for a delivered event.
    pub const DELIVERED: &str = "delivered";

    /// Returns the word for the end.
    pub fn word(self) -> &'static str {
        match self {
            Self::Delivered { .. } => Self::DELIVERED,
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Returns the time of the end.
    pub fn at(self) -> Timestamp {
        match self {
            Self::Delivered { at, .. } | Self::Cancelled { at } => at,
        }
    }
}

/// Position of an event in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The run that will have the event in its input.
    pub run: Seq,
    /// The position, from 0.
    pub n: u32,
    /// The event.
    pub event: EventId,
}

/// Wait of a run for an event. The row can be found by the event's name and the value of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// The workspace.
    pub ws: Workspace,
    /// The event's name.
    pub name: String,
    /// The path of the field; empty if any event of the name matches.
    pub path: String,
    /// The encoded value that the event must have at the path.
    pub value: Vec<u8>,
    /// The run.
    pub run: Seq,
    /// The run's step.
    pub step: String,
}

/// Path on which some wait for events of this name matches. When an event arrives, its values at
/// all these paths are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitPath {
    /// The workspace.
    pub ws: Workspace,
    /// The event's name.
    pub name: String,
    /// The path; empty for waits that match any event.
    pub path: String,
}

/// Signal that its run has not received yet.
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
    /// The value of the deciding control's key, for display.
    pub key: String,
    /// The event that the verdict is about.
    pub event: Seq,
    /// When the verdict was decided.
    pub at: Timestamp,
    /// The verdict as it was returned to the caller.
    pub verdict: serde_json::Value,
}
