//! Histories under changed code: no effect before all records were reached, no run stopped that
//! could continue, and no version driven by the code of another.

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

/// The ids that one call of a handler has reached.
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

/// The code with which a process drives a run.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    pub(crate) code: Arc<Code>,
    pub(crate) workflow: String,
    /// Whether this is a child run, which starts no children.
    pub(crate) deep: bool,
    pub(crate) session: bool,
}

impl Drive {
    /// Returns whether the handler performs an operation rather than skipping it.
    pub(crate) fn does(&self, plan: &Plan, op: &Op) -> bool {
        match op {
            Op::Invoke(_) | Op::Send(_) if self.deep => false,
            // Versions of a workflow may block each other, which no caller can know.
            Op::Invoke(name) => *name != self.workflow || plan.releases == 0,
            _ => true,
        }
    }
}

/// The code that each process has for the runs that it drives.
pub(crate) type Drives = BTreeMap<(usize, Seq), Drive>;

/// Checks whether the code of a version may drive a run: it has the run's number, or neither has
/// one.
pub(crate) fn serves(state: &State, run: RunId, version: Option<u32>) -> Result<(), String> {
    let Some(run) = state.run(run.seq) else { return Ok(()) };
    let def = state.defs().find(|def| def.lane == run.lane);
    let assigned = def.is_some_and(|def| def.assigned == Some(true));
    let serves = version.map_or(assigned, |version| version == run.version);
    if serves {
        return Ok(());
    }
    Err(format!("{} of version {} is driven by code of {version:?}", run.id, run.version))
}

/// Checks that an effect starts only after all records of earlier activations were reached:
/// otherwise the code has changed, and the effect may be recorded under another id.
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
        Some(lost) => Err(format!("{effect:?} begins, and `{lost}`, on record, was not asked for")),
    }
}

/// Checks that a run ends with changed code only if its code cannot continue its history. Returns
/// whether this run did. Uses the state before the commit that ended it.
pub(crate) fn changed(
    plan: &Plan,
    state: &State,
    drive: Option<&Drive>,
    ended: &Ended,
    changes: &[Change],
) -> Result<bool, String> {
    let Ending::Failed { error } = &ended.ending else { return Ok(false) };
    // The history of a compensating run is that of the run it compensates.
    if error.code != "ChangedWorkflow" || matches!(ended.purpose, Purpose::Compensates(_)) {
        return Ok(false);
    }
    let Some(drive) = drive else {
        return Err(format!("{} has changed code, and was not driven: {error:?}", ended.id));
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
            "{} could go on with {recorded:?} and {waits:?}: {error:?}, {:?}",
            ended.id, drive.code.parts
        ));
    }
    Ok(true)
}

/// Returns the ids of the waits of a run.
fn waits(run: &Run) -> BTreeSet<&str> {
    let waits = run.waits.iter().filter(|wait| wait.on != WaitOn::Retry);
    waits.map(|wait| wait.step.as_str()).collect()
}
