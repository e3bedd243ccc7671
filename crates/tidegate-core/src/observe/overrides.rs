//! Queries of overrides: whether what a pause stops has drained, and how many runs a change
//! concerns.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    catalog::Catalog,
    draft::{Decided, Draft, Missing},
    flow::gate,
    id::Seq,
    list::RunFilter,
    observe::gates::LINE,
    overrides::{Override, Target},
    reads::{Count, Scan},
    row::{Gate, Row, Workspace},
};

/// Number of live runs of each version, or of gates of each class, that are read for one override.
/// Beyond it the answer is not known, unless one of those read has started.
const LOOK: u32 = 1000;

/// Says for each override that pauses or closes its target whether that has drained: no started run
/// of a paused workflow lives, nobody is inside the gates of any other target (spec L25). None for
/// other overrides, and if it is not known.
pub fn drained<E>(
    draft: &Draft,
    ws: &Workspace,
    overrides: &[Override],
) -> Decided<Vec<Option<bool>>, E> {
    let catalog = draft.catalog(ws)?;
    let mut missing = Missing::default();
    let mut all = Vec::with_capacity(overrides.len());
    for over in overrides {
        let closes = over.fields.closing() == Some(true);
        let found = if closes { is_empty(draft, &catalog, ws, &over.target) } else { Ok(None) };
        all.push(missing.note(found)?.flatten());
    }
    missing.settle()?;
    Ok(all)
}

/// Number of runs of each version that are read to count those that have not started.
const COUNTED: u32 = 10_000;

/// Number of gates whose queues are counted.
const GATES: u32 = 256;

/// Number of runs of one queue for which a preview decides whether they would enter.
const ENTERING: usize = 256;

/// Counts the runs that wait at a target. The flag says that there may be more.
pub fn waiting<E>(draft: &Draft, ws: &Workspace, target: &Target) -> Decided<(u32, bool), E> {
    if target.is_of_starts() {
        return unstarted(draft, ws, target);
    }
    let (gates, mut more) = queued_at(draft, ws, target)?;
    let (mut missing, mut all) = (Missing::default(), 0_u32);
    for gate in gates.iter().filter(|it| it.key.scope().is_some_and(|it| target.has_gate(&it))) {
        let count = missing.note(draft.count(&Count::Queue(gate.key.clone()), LINE))?;
        let count = count.unwrap_or_default();
        (all, more) = (all.saturating_add(count), more || count >= LINE);
    }
    missing.settle()?;
    Ok((all, more))
}

/// Counts the runs of a workflow that wait and have not started.
fn unstarted<E>(draft: &Draft, ws: &Workspace, target: &Target) -> Decided<(u32, bool), E> {
    let catalog = draft.catalog(ws)?;
    let (app, workflow) = (Some(target.app.clone()), Some(target.workflow.clone()));
    let lanes = catalog.lanes(&RunFilter { app, workflow, ..RunFilter::default() });
    let (mut missing, mut all, mut more) = (Missing::default(), 0, false);
    for lane in lanes {
        let scan = Scan::Lane(lane, Seq(i64::MIN));
        let rows = missing.note(draft.found(&scan, COUNTED))?.unwrap_or_default();
        more |= rows.len() >= COUNTED as usize;
        all += rows.into_iter().filter_map(Row::as_run).filter(|it| target.has_waiting(it)).count();
    }
    missing.settle()?;
    Ok((u32::try_from(all).unwrap_or(u32::MAX), more))
}

/// Returns the gates in the ranges of a target that have a queue. The flag says that there may be
/// more.
fn queued_at<E>(draft: &Draft, ws: &Workspace, target: &Target) -> Decided<(Vec<Gate>, bool), E> {
    let (mut missing, mut gates, mut more) = (Missing::default(), Vec::new(), false);
    for (from, to) in target.ranges(ws) {
        let scan = Scan::GatesBetween(from.as_bytes().to_vec(), to.as_bytes().to_vec());
        let rows = missing.note(draft.found(&scan, GATES))?.unwrap_or_default();
        more |= rows.len() >= GATES as usize;
        let queued = rows.into_iter().filter_map(Row::as_gate).filter(|gate| gate::has_queue(gate));
        gates.extend(
            queued.filter(|it| it.key.scope().is_some_and(|it| target.is_in(&it))).cloned(),
        );
    }
    missing.settle()?;
    Ok((gates, more))
}

/// Effect of a change of an override on the runs that wait now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Number of waiting runs that would enter the gates of the target at once.
    pub enter: u32,
    /// Number of waiting runs that would go on waiting.
    pub wait: u32,
    /// Whether there may be more runs than were counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Returns the effect that the override `after` would have on the runs that wait at a target now.
pub fn preview<E>(
    draft: &Draft,
    ws: &Workspace,
    target: &Target,
    after: Option<&Override>,
) -> Decided<Effect, E> {
    let target = &target.clone().normal();
    if target.is_of_starts() && after.is_some_and(|it| it.fields.closing() == Some(true)) {
        let (wait, at_least) = unstarted(draft, ws, target)?;
        return Ok(Effect { enter: 0, wait, at_least });
    }
    let catalog = draft.catalog(ws)?;
    let overrides = catalog.overrides().with(target, after);
    let (gates, mut at_least) = queued_at(draft, ws, target)?;
    let (mut missing, mut enter, mut wait) = (Missing::default(), 0, 0);
    for gate in &gates {
        let Some(scope) = gate.key.scope() else { continue };
        let limit = catalog.limit_under(&overrides, &scope, gate.state.numbers());
        let count = missing.note(draft.count(&Count::Queue(gate.key.clone()), LINE))?;
        let first = missing.note(gate::would_enter(draft, gate, &limit, ENTERING))?;
        let (count, first) = (count.unwrap_or_default(), first.unwrap_or_default());
        at_least |= count >= LINE || first as usize >= ENTERING;
        enter += first.min(count);
        wait += count - first.min(count);
    }
    missing.settle()?;
    Ok(Effect { enter, wait, at_least })
}

fn is_empty<E>(
    draft: &Draft,
    catalog: &Catalog,
    ws: &Workspace,
    target: &Target,
) -> Decided<Option<bool>, E> {
    let scans: BTreeSet<Scan> = if target.is_of_starts() {
        let (app, workflow) = (Some(target.app.clone()), Some(target.workflow.clone()));
        let lanes = catalog.lanes(&RunFilter { app, workflow, ..RunFilter::default() });
        lanes.into_iter().map(|lane| Scan::Lane(lane, Seq(i64::MIN))).collect()
    } else {
        let ranges = target.ranges(ws).into_iter();
        let bytes = |(from, to): (crate::row::GateKey, crate::row::GateKey)| {
            Scan::GatesBetween(from.as_bytes().to_vec(), to.as_bytes().to_vec())
        };
        ranges.map(bytes).collect()
    };
    let is_inside = |row: &&Row| {
        if let Some(gate) = row.as_gate() {
            let own = gate.key.scope().is_some_and(|scope| target.is_in(&scope));
            return own && !gate::holders(gate).is_empty();
        }
        row.as_run().is_some_and(|run| run.started && target.has_run(run))
    };
    let (mut missing, mut inside, mut all) = (Missing::default(), false, true);
    for scan in scans {
        let rows = missing.note(draft.found(&scan, LOOK))?.unwrap_or_default();
        all &= rows.len() < LOOK as usize;
        inside |= rows.iter().any(is_inside);
    }
    missing.settle()?;
    Ok(if inside { Some(false) } else { all.then_some(true) })
}
