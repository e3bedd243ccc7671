//! Checks of adaptive limits: their range, and each change beside the signals of its commit.

use tidegate_core::{
    command::Command,
    row::{Adapted, Calls, Gate, GateKey, GateState, Row, RowKey, Run, StepKind},
    run::record::Record,
};

use super::{Checked, Look, history::History};
use crate::sim::controls::Range;

/// Returns the row of a gate before the commit.
fn before<'a>(look: &Look<'a>, key: &GateKey) -> Option<&'a Gate> {
    let mut deltas = look.deltas.iter().filter(|it| it.key == RowKey::Gate(key.clone()));
    match deltas.next() {
        Some(delta) => delta.before.as_ref().and_then(Row::as_gate),
        None => look.state.gate(key),
    }
}

/// Returns the value of a gate before the commit, in the range of today.
fn value(look: &Look<'_>, gate: Option<&Gate>, key: &GateKey, range: Range) -> Adapted {
    let start = look.defined_limit(key).unwrap_or(1);
    let start = u32::try_from(start).expect("limits of the plan are small");
    let known = gate.and_then(|gate| gate.state.adapted()).copied();
    let known = known.unwrap_or(Adapted::new(start));
    let limit = u64::from(known.limit).clamp(range.min, range.max);
    Adapted { limit: u32::try_from(limit).expect("limits of the plan are small"), ..known }
}

fn changes(gate: Option<&Gate>) -> u32 {
    gate.and_then(|gate| gate.state.adapted()).map_or(0, |adapted| adapted.changes)
}

/// Returns the highest limit that a gate had during the commit. Each change raises it by one at
/// most.
pub(super) fn highest(look: &Look<'_>, key: &GateKey, limit: u64) -> u64 {
    let Some(range) = look.range(key) else { return limit };
    let old = before(look, key);
    let was = u64::from(value(look, old, key, range).limit);
    let times = changes(look.state.gate(key)).saturating_sub(changes(old));
    let between = if times > 1 { u64::from(times) } else { 0 };
    (was.max(limit) + between).min(range.max)
}

/// Returns the calls of a step, or of its run, at a gate before the commit.
fn calls_of(run: &Run, key: &GateKey, step: &str) -> Option<Calls> {
    let entered = run.plan.iter().take(run.entered);
    let mut calls = entered.filter(|need| need.gate == *key).map(|need| &need.calls);
    let passes = run.in_pools.iter().any(|inside| inside == step);
    let calls = calls.next()?;
    calls.get(step).or_else(|| calls.get("").filter(|_| !passes)).copied()
}

/// Returns the accepted reports of the commit, with the runs before it.
fn reports<'a>(look: &Look<'a>) -> impl Iterator<Item = (&'a Record, &'a Run)> {
    look.answered().filter_map(|(command, answer)| match (command, answer) {
        (Command::Record { report, .. }, Ok(_)) => Some((report, look.before(report.run)?)),
        _ => None,
    })
}

/// The value of an adaptive limit is in its range. It falls to half, no more than once in its
/// cooldown and only by an overload of a call that began after its last change, which always lowers
/// it then; it grows by one only if as many calls have succeeded.
pub(super) fn i95(look: &Look<'_>, history: &History) -> Checked {
    if look.redefines() {
        return Ok(());
    }
    begun(look)?;
    for gate in look.deltas.iter().filter_map(|delta| delta.after.as_ref()?.as_gate()) {
        let GateState::Slots(_) = gate.state else { continue };
        let (Some(range), old) = (look.range(&gate.key), before(look, &gate.key)) else { continue };
        let was = value(look, old, &gate.key, range);
        let now = gate.state.adapted().copied().unwrap_or(was);
        let fail = |what: &str| {
            let scope = gate.key.scope();
            Err(format!("{what}: {was:?} became {now:?} in {range:?} at {scope:?}"))
        };
        // A release may have narrowed the range of a value that no signal has changed since.
        if gate.state.adapted() == old.and_then(|it| it.state.adapted()) {
            continue;
        }
        if !(range.min..=range.max).contains(&u64::from(now.limit)) {
            return fail("a limit is out of its range");
        }
        let times = now.changes.saturating_sub(was.changes);
        if now.changes < was.changes {
            return fail("a limit has forgotten its changes");
        }
        if times == 0 && now.limit != was.limit {
            return fail("a limit has changed without a count");
        }
        if times == 1 && now.lowered_at != was.lowered_at {
            let half = (u64::from(was.limit) / 2).max(range.min);
            let rests = was
                .lowered_at
                .is_none_or(|at| history.stepped || look.at >= at.plus_ms(range.cooldown));
            if u64::from(now.limit) != half || !rests {
                return fail("a limit did not fall to half, or fell in its cooldown");
            }
            if !look.rows_only && !is_overloaded(look, &gate.key, was.changes) {
                return fail("a limit fell without an overload of a call since its last change");
            }
        } else if times == 1 && (now.limit != was.limit + 1 || now.successes != 0) {
            return fail("a limit did not grow by one");
        } else if times == 1 && !look.rows_only && !is_successful(look, gate, was) {
            return fail("a limit grew without as many successes as the limit");
        }
    }
    if look.rows_only { Ok(()) } else { lowered(look, history) }
}

/// Whether a report of the commit has an overload of a call that began after this change.
fn is_overloaded(look: &Look<'_>, key: &GateKey, since: u32) -> bool {
    reports(look).any(|(report, run)| {
        report.overloads.iter().any(|new| {
            let own = calls_of(run, key, "").filter(|_| new.pool.is_some());
            let calls = calls_of(run, key, &new.step).or(own);
            calls.is_some_and(|calls| calls.since == since)
        })
    })
}

/// Whether at least so many calls have succeeded as the limit was.
fn is_successful(look: &Look<'_>, gate: &Gate, was: Adapted) -> bool {
    let runs = look.runs().filter_map(|(before, _)| before);
    let waiting: u32 = runs
        .filter_map(|run| calls_of(run, &gate.key, ""))
        .filter(|calls| calls.since == was.changes)
        .map(|calls| calls.successes)
        .sum();
    let is_call = |step: &&tidegate_core::run::record::NewStep| {
        step.kind == StepKind::Run && step.result.is_ok()
    };
    let here: usize = reports(look).map(|(it, _)| it.steps.iter().filter(is_call).count()).sum();
    u64::from(was.successes) + u64::from(waiting) + here as u64 >= u64::from(was.limit)
}

/// An overload of a call that began after the last change lowers the limit, unless that is at its
/// minimum or was lowered a short time before.
fn lowered(look: &Look<'_>, history: &History) -> Checked {
    for (report, run) in reports(look) {
        for new in report.overloads.iter().filter(|new| new.pool.is_none()) {
            for need in run.plan.iter().take(run.entered) {
                let key = &need.gate;
                let Some(range) = look.range(key) else { continue };
                let (old, Some(gate)) = (before(look, key), look.state.gate(key)) else { continue };
                let was = value(look, old, key, range);
                let Some(calls) = calls_of(run, key, &new.step) else { continue };
                let recent = was.lowered_at.is_some_and(|at| look.at < at.plus_ms(range.cooldown));
                let stays = u64::from(was.limit) <= range.min || recent || history.stepped;
                if calls.since == was.changes && !stays && changes(Some(gate)) <= was.changes {
                    let scope = key.scope();
                    return Err(format!(
                        "an overload did not lower {was:?} at {scope:?}: {gate:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A run that enters notes a change of the limit that the gate had during the commit.
fn begun(look: &Look<'_>) -> Checked {
    for (old, run) in look.runs() {
        let Some(run) = run else { continue };
        for need in run.plan.iter().take(run.entered) {
            for (step, calls) in &need.calls {
                let known = old.and_then(|old| calls_of(old, &need.gate, step));
                if known.is_some_and(|known| known.since == calls.since) {
                    continue;
                }
                let from = changes(before(look, &need.gate));
                let to = changes(look.state.gate(&need.gate));
                if !(from..=to.max(from)).contains(&calls.since) {
                    let (id, scope) = (run.id, need.gate.scope());
                    return Err(format!("run {id} notes {calls:?} at {scope:?}: {from} to {to}"));
                }
            }
        }
    }
    Ok(())
}
