//! Checks of histories under changed code: no effect starts before all records were requested, no
//! run stops that could continue, and no version is driven by the code of another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use tidegate::RunId;
use tidegate_core::{
    id::Seq,
    reads::Change,
    row::{Ended, Ending, Purpose, Row, Run, WaitOn},
};
use tidegate_testkit::sim::{script::Op, state::State, trace::Effect, workload::Plan};

use crate::code::Code;

/// Ids that one call of a handler has requested.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<BTreeSet<String>>);

impl Asked {
    pub(crate) fn add<I: Into<String>>(&self, ids: impl IntoIterator<Item = I>) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.extend(ids.into_iter().map(Into::into));
    }

    fn has(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

/// Code with which a process drives a run.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    pub(crate) code: Arc<Code>,
    pub(crate) workflow: String,
    /// Whether this is a child run, which starts no further children.
    pub(crate) deep: bool,
    pub(crate) session: bool,
}

impl Drive {
    /// Returns whether the handler executes an operation of its script, or skips it.
    pub(crate) fn does(&self, plan: &Plan, op: &Op) -> bool {
        match op {
            Op::Invoke(_) | Op::Send(_) if self.deep => false,
            // A call of the own workflow is skipped if there are releases, because its versions may
            // block each other.
            Op::Invoke(name) => *name != self.workflow || plan.releases == 0,
            _ => true,
        }
    }
}

/// Code that each process has for the runs that it drives.
pub(crate) type Drives = BTreeMap<(usize, Seq), Drive>;

/// Checks that this code may drive a run: the code has the version number of the run, or neither
/// has a number.
pub(crate) fn serves(state: &State, run: RunId, version: Option<u32>) -> Result<(), String> {
    let Some(run) = state.run(run.seq) else { return Ok(()) };
    let def = state.defs().find(|def| def.lane == run.lane);
    let assigned = def.is_some_and(|def| def.assigned == Some(true));
    let serves = version.map_or(assigned, |version| version == run.version);
    if serves {
        return Ok(());
    }
    Err(format!(
        "run {} of version {} is driven by code of version {version:?}",
        run.id, run.version
    ))
}

/// Checks that an effect starts only after all records of earlier activations were requested.
/// Otherwise the code has changed, and the same effect may be recorded under another id.
pub(crate) fn replayed(state: &State, effect: &Effect, asked: &Asked) -> Result<(), String> {
    let lost = state.rows().find_map(|row| match row {
        Row::Step(step)
            if step.run == effect.run.seq
                && step.fence < effect.fence
                && !step.id.starts_with("patch:")
                && !asked.has(&step.id) =>
        {
            Some(&step.id)
        }
        _ => None,
    });
    match lost {
        None => Ok(()),
        Some(lost) => Err(format!("{effect:?} starts before the recorded `{lost}` was requested")),
    }
}

/// Checks that a run fails with `ChangedWorkflow` only if its code cannot continue its history.
/// Returns whether the run failed so. Uses the state before the commit that ended the run.
pub(crate) fn changed(
    plan: &Plan,
    state: &State,
    drive: Option<&Drive>,
    ended: &Ended,
    changes: &[Change],
) -> Result<bool, String> {
    let Ending::Failed { error } = &ended.ending else { return Ok(false) };
    // A compensating run has the history of the run that it compensates, and is not checked here.
    if error.code != "ChangedWorkflow" || matches!(ended.purpose, Purpose::Compensates(_)) {
        return Ok(false);
    }
    let Some(drive) = drive else {
        return Err(format!(
            "run {} failed because of changed code without being driven: {error:?}",
            ended.id
        ));
    };
    let own = |row: &Row| match row {
        Row::Step(step) if step.run == ended.id.seq => Some(step.id.clone()),
        _ => None,
    };
    let written = changes.iter().filter_map(|change| match change {
        Change::Insert(row) => own(row),
        _ => None,
    });
    let recorded: BTreeSet<String> = state.rows().filter_map(own).chain(written).collect();
    let recorded = recorded.iter().map(String::as_str).collect();
    let waits = state.run(ended.id.seq).map(waits).unwrap_or_default();
    let around: [&[&str]; 2] =
        if drive.session { [&["begin", "count"], &["end"]] } else { [&[], &[]] };
    let does = |op: &Op| drive.does(plan, op);
    if drive.code.continues(around, does, &recorded, &waits) {
        return Err(format!(
            "run {} could continue with {recorded:?} and {waits:?}: {error:?}, {:?}",
            ended.id, drive.code.parts
        ));
    }
    Ok(true)
}

/// Returns the ids of a run's waits, without retries.
fn waits(run: &Run) -> BTreeSet<&str> {
    let waits = run.waits.iter().filter(|wait| wait.on != WaitOn::Retry);
    waits.map(|wait| wait.step.as_str()).collect()
}
