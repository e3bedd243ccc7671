//! Scripts of runs. A script is drawn from the id of its run, so that every worker that drives the
//! run uses the same one.

use std::{collections::BTreeSet, time::Duration};

use tidegate_core::{
    id::RunId,
    row::{Run, RunError},
    run::record::{NewStep, NewWait, NewWaitOn, Then},
    time::Timestamp,
};

use super::Dice;
use crate::{
    worker::again,
    world::{payload, step},
};

/// The longest sleep and the longest backoff.
const LONGEST_WAIT_MS: u64 = 40;

/// The script of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// One step.
    Plain,
    /// Two steps, each in its own report.
    Two,
    /// A step, a sleep, a step.
    Nap,
    /// A step of which the first attempt fails.
    Shaky,
    /// The first engine hands the run over; the next one executes one step.
    Yield,
    /// A step, then the run fails.
    Doomed,
}

/// The next action of a run.
#[derive(Clone, Debug)]
pub struct Act {
    /// The step that is executed, if any.
    pub step: Option<&'static str>,
    /// What the report says about the run.
    pub then: Then,
}

impl Act {
    /// Returns the steps for the report.
    pub fn steps(&self) -> Vec<NewStep> {
        self.step.iter().map(|id| step(id, &serde_json::json!(id))).collect()
    }
}

impl Script {
    /// Returns the script of a run.
    pub fn of(run: RunId) -> Self {
        match Dice::new(run.salt).below(20) {
            0..=1 => Self::Two,
            2..=4 => Self::Nap,
            5..=6 => Self::Shaky,
            7 => Self::Yield,
            8 => Self::Doomed,
            _ => Self::Plain,
        }
    }

    /// Returns the steps that are recorded when the run has ended without a cancel.
    pub fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::Shaky | Self::Yield | Self::Doomed => &["a"],
            Self::Two => &["a", "b"],
            Self::Nap => &["a", "b", "nap"],
        }
    }

    /// Returns the final status of the run, if it is not cancelled.
    pub fn state(self) -> &'static str {
        if self == Self::Doomed { "failed" } else { "completed" }
    }

    /// Returns the next action, given the recorded steps.
    pub fn next(self, run: &Run, done: &BTreeSet<String>, now: Timestamp) -> Act {
        let mut dice = Dice::new(run.id.salt ^ 1);
        let wait = dice.below(LONGEST_WAIT_MS + 1);
        let complete = || Then::Complete(payload(&serde_json::json!("done")));
        let (step, then) = match (self, done.contains("a")) {
            (Self::Shaky, false) if run.failures.is_empty() => {
                (None, Then::Suspend(vec![again("a", wait)]))
            }
            (Self::Yield, false) if run.fence == 1 => (None, Then::Yield),
            (Self::Two | Self::Nap, false) => (Some("a"), Then::Continue),
            (Self::Nap, true) if !done.contains("nap") => {
                let until = Some(now.plus_ms(wait).into());
                let nap = NewWait { step: "nap".to_owned(), on: NewWaitOn::Time, until };
                (None, Then::Suspend(vec![nap]))
            }
            (Self::Two | Self::Nap, true) => (Some("b"), complete()),
            (Self::Doomed, done) => {
                let error = RunError::new("Doomed", "as planned");
                ((!done).then_some("a"), Then::Fail(error))
            }
            (Self::Plain | Self::Shaky | Self::Yield, done) => ((!done).then_some("a"), complete()),
        };
        Act { step, then }
    }

    /// Returns a random duration for a step.
    pub fn effort(dice: &mut Dice) -> Duration {
        dice.up_to_ms(10)
    }
}
