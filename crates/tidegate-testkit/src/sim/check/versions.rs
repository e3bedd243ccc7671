//! Order between runs: sessions, replacements, releases.

use tidegate_core::row::{Class, Phase, Run};

use super::{Checked, Look, history::History};
use crate::sim::controls::Policy;

/// The runs that this commit started for the first time.
fn started<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a Run> {
    look.runs().filter_map(|(before, after)| {
        let fresh = before.is_none_or(|run| !run.started);
        after.filter(|run| run.started && fresh)
    })
}

/// Under `queue`, starts follow acceptance, each after the end of the one before.
pub(super) fn i22(look: &Look<'_>, _: &History) -> Checked {
    let queues = |run: &Run| {
        let spec = look.plan.spec(&run.workflow);
        let policy = spec.and_then(|spec| spec.version(run.version).0.policy.clone());
        matches!(policy, Some(Policy::Queue(_)))
    };
    for run in started(look).filter(|run| queues(run)) {
        let session = run.needs.iter().find(|need| need.gate.class() == Some(Class::Policy));
        let Some(need) = session else { continue };
        let shares = |other: &&Run| other.needs.iter().any(|it| it.gate == need.gate);
        for other in look.state.runs().filter(shares).filter(|other| other.id != run.id) {
            let earlier = other.id.seq < run.id.seq && queues(other);
            if other.started || (earlier && other.phase != Phase::Paused) {
                return Err(format!("{} starts before the end of {other:?}", run.id));
            }
        }
    }
    Ok(())
}

/// A run that replaced another starts once that one is gone.
pub(super) fn i29(look: &Look<'_>, _: &History) -> Checked {
    for run in started(look) {
        if let Some(old) = run.replaced
            && look.state.run(old.seq).is_some()
        {
            return Err(format!("{} starts while {old} is there", run.id));
        }
    }
    Ok(())
}

/// No run starts on a handoff gate while a run of an older release is there.
pub(super) fn i30(look: &Look<'_>, _: &History) -> Checked {
    for run in started(look) {
        let gate = run.needs.iter().find(|need| need.gate.class() == Some(Class::Handoff));
        let Some(need) = gate else { continue };
        let own = look.state.release_of(run.lane);
        for other in look.state.runs().filter(|other| other.id != run.id) {
            let shares = other.needs.iter().any(|it| it.gate == need.gate);
            let older = look.state.release_of(other.lane) < own;
            let superseded = !other.started && other.phase != Phase::Stopping;
            if shares && older && !superseded {
                return Err(format!("{} starts beside the older {other:?}", run.id));
            }
        }
    }
    Ok(())
}

/// A run keeps its version once it has started.
pub(super) fn i31(look: &Look<'_>, _: &History) -> Checked {
    for (before, after) in look.runs() {
        let (Some(old), Some(new)) = (before, after) else { continue };
        if old.started && (old.version, old.lane) != (new.version, new.lane) {
            return Err(format!("{} moves to version {}", old.id, new.version));
        }
    }
    Ok(())
}
