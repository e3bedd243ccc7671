//! Waits and listeners: the events and times that concern a run. They are parts of its row.

use serde::{Deserialize, Serialize};

use super::{Event, run::is_default};
use crate::{
    expr::{Expr, Mode, Value},
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
        /// A further condition.
        #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
        filter: Option<WaitFilter>,
        /// Whether the answer is the whole event, and not only its data.
        #[serde(default, skip_serializing_if = "is_default")]
        whole: bool,
    },
    /// A signal that is sent by its name. At most one run of a workspace waits for a name.
    Named {
        /// The signal's name.
        name: String,
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

/// Condition of a wait that is evaluated for each event that has its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitFilter {
    /// The expression, in which the values of the run are bound. Its variable `async` is the event.
    pub expr: String,
    /// Whether it is evaluated in lenient mode.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lenient: bool,
}

impl WaitFilter {
    /// Name of the variable that is the event.
    pub const EVENT: &str = "async";

    /// Whether the condition holds for an event. A condition that cannot be evaluated does not.
    pub fn holds(&self, event: &Event) -> bool {
        let mode = if self.lenient { Mode::Lenient } else { Mode::Strict };
        let whole = event.whole();
        let holds = Expr::parse_bound(&self.expr)
            .and_then(|expr| expr.condition(&[(Self::EVENT, Value::of(&whole))], mode));
        holds.unwrap_or(false)
    }
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
    #[serde(with = "super::hex")]
    pub value: Vec<u8>,
    /// The number at the admission. Events with a lower number have no effect.
    pub since: Seq,
    /// The condition for an event with these values; none if all of them have the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<WaitFilter>,
    /// Events after this time have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What an event does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub effect: ListenerEffect,
    /// Whether stores find the run by [`Run::listens`](super::Run::listens). Any other listener has
    /// a row in the index of waits: all but the first of a run, and all of a run that was admitted
    /// before the migration 21.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first: bool,
}

impl Listener {
    /// Returns the number by which stores find the runs that listen for an event of this name with
    /// this value at this path. Other listeners may have the same number.
    pub fn number(ws: &str, name: &str, path: &str, value: &[u8]) -> i64 {
        // FNV-1a. All versions must compute the same number, because runs are stored with it.
        let texts = [ws, name, path].into_iter().flat_map(|text| text.bytes().chain([0]));
        let hash =
            texts.chain(value.iter().copied()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        hash.cast_signed()
    }

    /// Whether the listener is for events of this name with this value at this path.
    pub fn is_for(&self, name: &str, path: &str, value: &[u8]) -> bool {
        self.name == name && self.path == path && self.value == value
    }
}

/// Effect of an event on a run that has a listener for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListenerEffect {
    /// The event cancels the run (`cancelOn`).
    #[default]
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
