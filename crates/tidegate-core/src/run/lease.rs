//! The one door into *driven*: an engine leases ready runs, each with a new fence.

use crate::{
    draft::{Decided, Draft},
    flow::gate,
    id::Seq,
    reads::Scan,
    row::{EngineId, Phase, Row, Run},
};

/// Leases up to `limit` ready runs of the lanes to an engine, best rank first.
///
/// The lanes are those of one workspace that the engine serves; it takes workspaces in turn.
pub fn lease<E>(
    draft: &mut Draft,
    engine: EngineId,
    lanes: &[Seq],
    limit: u32,
) -> Decided<Vec<Run>, E> {
    let scan = Scan::Ready(lanes.to_vec());
    let ready = draft.found(&scan, limit)?.into_iter().filter_map(|row| match row {
        Row::Run(run) if run.phase == Phase::Ready => Some((**run).clone()),
        _ => None,
    });
    let ready: Vec<Run> = ready.take(limit as usize).collect();
    ready.into_iter().map(|run| lease_one(draft, engine, run)).collect()
}

fn lease_one<E>(draft: &mut Draft, engine: EngineId, mut run: Run) -> Decided<Run, E> {
    if !run.started {
        gate::start(draft, &run)?;
        run.started = true;
    }
    run.fence += 1;
    run.owner = Some(engine);
    run.phase = Phase::Driven;
    run.answered.clear();
    draft.put(run.clone());
    Ok(run)
}
