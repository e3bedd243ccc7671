//! Checks of step closures when they start, against the rows of the store at that time.

use tidegate_core::row::{Begun, Phase, RowKey};

use super::{Checked, history::History};
use crate::sim::{state::State, trace::Effect};

type OnStart = (&'static str, fn(&State, &History, &Effect) -> Checked);

/// The checks at the start of a step's closure.
pub(super) const ON_START: &[OnStart] = &[("I24", i24), ("I26", i26), ("I28", i28), ("I29", i29)];

/// A step starts once per lease, and never after it was recorded.
fn i24(state: &State, history: &History, effect: &Effect) -> Checked {
    if history.started.contains(effect) {
        return Err("it was started under this very lease before".to_owned());
    }
    let current = state.run(effect.run.seq).is_some_and(|run| run.fence == effect.fence);
    let recorded = state.row(&RowKey::Step(effect.run.seq, effect.step.clone()));
    match recorded {
        Some(record) if current => Err(format!("the step is already recorded: {record:?}")),
        _ => Ok(()),
    }
}

/// Two processes execute steps of the same run only if the first has lost its lease.
fn i26(state: &State, history: &History, effect: &Effect) -> Checked {
    let others = history.running.iter().filter(|other| other.run == effect.run);
    for other in others.filter(|other| other.engine != effect.engine) {
        if state.engine(other.engine).is_some_and(|row| !row.dead) {
            return Err(format!("{other:?} is still executing, and its engine is not dead"));
        }
    }
    let run = state.run(effect.run.seq);
    let leased =
        run.is_some_and(|run| run.owner == Some(effect.engine) && run.fence == effect.fence);
    if leased || state.engine(effect.engine).is_none_or(|row| row.dead) {
        return Ok(());
    }
    Err(format!("the engine is not dead, but has no lease on the run: {run:?}"))
}

/// After the death of an engine that drove a run, no step of the run starts before the begin of its
/// handler is recorded; otherwise the next death would not be counted.
fn i28(state: &State, _: &History, effect: &Effect) -> Checked {
    match state.run(effect.run.seq) {
        Some(run) if run.fence == effect.fence && run.begun == Begun::No => {
            Err("its handler is called, and that is not on record".to_owned())
        }
        _ => Ok(()),
    }
}

/// No step of a replaced run starts after the first step of the run that replaced it.
fn i29(state: &State, history: &History, effect: &Effect) -> Checked {
    let stopping = |run: &tidegate_core::row::Run| run.phase == Phase::Stopping;
    let over = state.run(effect.run.seq).is_none_or(stopping);
    let successor = history.successors.get(&effect.run.seq);
    match successor {
        Some(next) if over && history.driven.contains(next) => {
            Err(format!("the run was replaced by run {next}, which has started"))
        }
        _ => Ok(()),
    }
}
