//! Trail: the history of a run's states. It is part of the run's row; timelines are made from it.

use serde::{Deserialize, Serialize};

use super::{GateKey, Phase, Run, WaitOn};
use crate::{id::RunId, time::Timestamp};

/// Maximum number of states in a trail. If there are more, those in the middle are merged.
const MOST: usize = 64;

/// Maximum number of simultaneous waits in one mark.
const AWAITED: usize = 8;

/// Number of states at the beginning of a trail that are never merged.
const FIRST: usize = 16;

/// States of a run, oldest first. Each state lasts until the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Trail(Vec<Mark>);

/// State of a run, and the time when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark(pub Timestamp, pub At);

/// State in a run's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum At {
    /// The run is in the queue of a gate.
    #[serde(rename = "line")]
    Queue(GateKey),
    /// The run has entered all gates and waits for an engine.
    Ready,
    /// A worker drives the run.
    Driven,
    /// The run has these waits, each with its step.
    Waiting(Vec<(String, Awaited)>),
    /// The run is paused.
    Paused,
    /// Several states that were merged into one mark.
    Several,
}

/// Kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Awaited {
    /// A point in time.
    Time,
    /// The next attempt of a step.
    Retry,
    /// An event.
    Event,
    /// A signal.
    Signal,
    /// The end of this child.
    Child(RunId),
    /// The end of a predecessor.
    Before(RunId),
}

impl From<Vec<Mark>> for Trail {
    fn from(marks: Vec<Mark>) -> Self {
        Self(marks)
    }
}

impl Trail {
    /// Whether the trail has no states.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the states, oldest first.
    pub fn marks(&self) -> &[Mark] {
        &self.0
    }

    /// Adds a state. A state that lasted no time is removed.
    fn note(&mut self, now: Timestamp, at: At) {
        let last = self.0.last();
        if last.is_some_and(|last| last.1 == at) {
            return;
        }
        let took_no_time = last.is_some_and(|last| last.0 == now);
        // The clock may have stepped back. Times in the trail never do.
        let now = last.map_or(now, |last| last.0.max(now));
        if took_no_time {
            self.0.pop();
            // The run is back in the state before, which then simply continues.
            if self.0.last().is_some_and(|last| last.1 == at) {
                return;
            }
        }
        self.0.push(Mark(now, at));
        if self.0.len() > MOST {
            self.0.remove(FIRST + 1);
            self.0[FIRST].1 = At::Several;
        }
    }
}

impl Run {
    /// Adds the current state to the trail.
    pub(crate) fn leave_mark(&mut self, now: Timestamp) {
        let at = match &self.phase {
            Phase::Queued { .. } => match self.plan.get(self.entered) {
                Some(need) => At::Queue(need.gate.clone()),
                None => return,
            },
            Phase::Ready => At::Ready,
            Phase::Driven => At::Driven,
            Phase::Waiting => {
                let waits = self.waits.iter().take(AWAITED);
                At::Waiting(waits.map(|it| (it.step.clone(), Awaited::of(&it.on))).collect())
            }
            Phase::Paused => At::Paused,
            // The run has ended; its worker has not confirmed the stop yet.
            Phase::Stopping => return,
        };
        self.trail.note(now, at);
    }
}

impl Awaited {
    /// Returns the word for the kind of wait, and the run that is waited for.
    pub fn told(self) -> (&'static str, Option<RunId>) {
        match self {
            Self::Time => ("time", None),
            Self::Retry => ("retry", None),
            Self::Event => ("event", None),
            Self::Signal => ("signal", None),
            Self::Child(run) => ("child", Some(run)),
            Self::Before(run) => ("run", Some(run)),
        }
    }

    fn of(on: &WaitOn) -> Self {
        match on {
            WaitOn::Time => Self::Time,
            WaitOn::Retry => Self::Retry,
            WaitOn::Event { .. } => Self::Event,
            WaitOn::Signal { .. } | WaitOn::Named { .. } => Self::Signal,
            WaitOn::Child { run } => Self::Child(*run),
            WaitOn::Before { run } => Self::Before(*run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{At, FIRST, MOST, Mark, Trail};
    use crate::time::Timestamp;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn only_places_that_took_time_are_remembered() {
        let mut trail = Trail::default();
        for (ms, place) in [
            (5, At::Ready),
            (5, At::Driven),
            (9, At::Driven),
            (9, At::Paused),
            (9, At::Driven),
            (12, At::Paused),
            // The clock has stepped back.
            (3, At::Ready),
            (20, At::Driven),
        ] {
            trail.note(at(ms), place);
        }
        let left = [(5, At::Driven), (12, At::Paused), (12, At::Ready), (20, At::Driven)];
        assert_eq!(trail.marks(), left.map(|(ms, place)| Mark(at(ms), place)));
    }

    #[test]
    fn of_many_places_the_first_and_the_last_are_kept() {
        let mut trail = Trail::default();
        for ms in 0..1000 {
            trail.note(at(ms), if ms % 2 == 0 { At::Ready } else { At::Driven });
        }
        assert_eq!(trail.marks().len(), MOST);
        assert_eq!(trail.marks()[FIRST], Mark(at(16), At::Several));
        assert_eq!(trail.marks()[0], Mark(at(0), At::Ready));
        assert_eq!(trail.marks()[MOST - 1], Mark(at(999), At::Driven));
    }
}
