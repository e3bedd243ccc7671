//! Queries of overrides: whether what a pause stops has drained.

use std::collections::BTreeSet;

use crate::{
    catalog::Catalog,
    draft::{Decided, Draft, Missing},
    flow::gate,
    id::Seq,
    list::RunFilter,
    overrides::{Override, Target},
    reads::Scan,
    row::{Row, Workspace},
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
    let is_inside = |row: &&Row| match row {
        Row::Run(run) => run.started && target.has_run(run),
        Row::Gate(gate) => {
            let own = gate.key.scope().is_some_and(|scope| target.is_in(&scope));
            own && !gate::holders(gate).is_empty()
        }
        _ => false,
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
