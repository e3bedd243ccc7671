//! Waits and listeners: the events and times that concern a run. They are parts of its row.

use serde::{Deserialize, Serialize};

use super::run::is_default;
use crate::{
    id::{RunId, Seq},
    time::Timestamp,
};

/// Condition that a waiting run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitOn {
    /// A point in time.
    Time,
    /// The next attempt of a step.
    Retry,
    /// An event; all fields must match. The row of the wait has the first field.
    Event {
        /// The event's name.
        name: String,
        /// Pairs of path and encoded value.
        matches: Vec<(String, Vec<u8>)>,
    },
    /// A signal.
    Signal {
        /// The signal's name.
        name: String,
    },
    /// The end of a child run.
    Child {
        /// The child.
        run: RunId,
    },
    /// The end of a predecessor: a run that must end before this run starts. The run starts when
    /// all predecessors have ended, and is cancelled if none of them has completed.
    Before {
        /// The predecessor.
        run: RunId,
    },
}

/// One wait of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The step that waits and gets the result.
    pub step: String,
    /// The condition.
    pub on: WaitOn,
    /// The end of the wait: the time that the step waits for, or the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The duration from the start of the wait to `until`. If the clock steps back, `until` is
    /// capped to this duration. None if the author gave a time and not a duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// The pool whose rate limit the step waits for, before its attempt has begun (spec L7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The number at the start of the wait. Events with a lower number do not end the wait.
    pub since: Seq,
}

/// Listener of a run: from its admission to its end, events that match have an effect on the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The event's name.
    pub name: String,
    /// The path, or several joined paths, of the values that the event must have.
    pub path: String,
    /// The encoded values, fixed at admission.
    pub value: Vec<u8>,
    /// The number at the admission. Events with a lower number have no effect.
    pub since: Seq,
    /// Events after this time have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What an event does.
    pub effect: ListenerEffect,
}

/// Effect of an event on a run that has a listener for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListenerEffect {
    /// The event cancels the run (`cancelOn`).
    Cancel,
    /// The event enters the run's inbox, where a later wait finds it (`waitsFor`).
    Keep {
        /// Number of events in the inbox.
        kept: u32,
        /// Number of events that found the inbox full.
        #[serde(default, skip_serializing_if = "is_default")]
        dropped: u32,
        /// The last event that a wait got, or that entered the inbox.
        last: Seq,
    },
}
