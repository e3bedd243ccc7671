//! Checks of step closures when they start, against the rows of the store at that time.

use tidegate_core::{
    flow::step_pool::PoolAsk,
    key::Key,
    row::{Begun, Class, GateKey, Phase, RowKey, Scope, Span},
};

use super::{Checked, Look, history::History};
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

/// An executing closure of a step, with the pools that the step passes.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The closure.
    pub effect: Effect,
    /// The pools.
    pub pools: Vec<PoolAsk>,
}

impl Places {
    /// Checks that the run has entered the gates of the pools with the units of the step, as long
    /// as the closure executes under the run's lease.
    pub(super) fn check(&self, state: &State) -> Checked {
        let Effect { run, fence, step, .. } = &self.effect;
        let Some(run) = state.run(run.seq).filter(|run| run.fence == *fence) else { return Ok(()) };
        if self.pools.is_empty() || run.owner != Some(self.effect.engine) {
            return Ok(());
        }
        for ask in &self.pools {
            let gate = |ask: &PoolAsk| {
                let (ws, class, app) = (run.ws.clone(), Class::PoolLimit, String::new());
                let (name, slot) = (ask.pool.clone(), String::new());
                let key = ask.key.clone().unwrap_or(Key::Whole);
                GateKey::new(&Scope { ws, class, app, name, slot, key })
            };
            let wanted = gate(ask);
            let same = self.pools.iter().filter(|other| gate(other) == wanted);
            let units: u32 = same.map(|other| other.cost).sum();
            let mut entered = run.plan.iter().take(run.entered);
            let has = entered.any(|need| {
                let taken = need.steps.get(step) == Some(&units) && need.costs.one() >= units;
                need.span == Span::Executing && need.gate == wanted && taken
            });
            if !has || !run.in_pools.contains(step) {
                return Err(format!(
                    "{:?} executes without its place: {ask:?}, {run:?}",
                    self.effect
                ));
            }
        }
        Ok(())
    }
}

/// A step that passes pools executes only while its run has its place in them.
pub(super) fn i74(look: &Look<'_>, history: &History) -> Checked {
    let changed = |places: &&Places| {
        look.runs().any(|(before, after)| {
            let run = after.or(before);
            run.is_some_and(|run| run.id == places.effect.run)
        })
    };
    history.places.iter().filter(changed).try_for_each(|places| places.check(look.state))
}
