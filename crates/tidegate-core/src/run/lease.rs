//! The one door into *driven*: an engine leases ready runs, each with a new fence.

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    flow::gate,
    id::Seq,
    reads::Scan,
    row::{EngineId, Phase, Row, RowKey, Run},
};

/// Leases up to `limit` ready runs of the lanes to an engine, best rank first.
///
/// The lanes are those of one workspace that the engine serves; it takes workspaces in turn.
pub fn lease(draft: &mut Draft, engine: EngineId, lanes: &[Seq], limit: u32) -> Decided<Vec<Run>> {
    // Nobody would ever take a run from an engine that is dead already.
    if matches!(draft.row(&RowKey::Engine(engine))?, Some(Row::Engine(row)) if row.dead) {
        return Err(Stop::Refused(Refusal::EngineDead(engine)));
    }
    let is_ready = |row: &Row| matches!(row, Row::Run(run) if run.phase == Phase::Ready);
    let ready = draft.found_still(&Scan::Ready(lanes.to_vec()), limit, is_ready)?;
    let run = |row: &Row| if let Row::Run(run) = row { Some((**run).clone()) } else { None };
    let ready: Vec<Run> = ready.into_iter().filter_map(run).collect();
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
