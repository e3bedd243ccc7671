//! The one door into *driven*: an engine leases ready runs, each with a new fence.

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    flow::gate,
    id::Seq,
    reads::Scan,
    row::{EngineId, Phase, Purpose, Row, RowKey, Run},
    time::Timestamp,
};

/// Leases up to `limit` ready runs of the lanes to an engine, best rank first.
///
/// The lanes are those of one workspace that the engine serves; it takes workspaces in turn.
pub fn lease(draft: &mut Draft, engine: EngineId, lanes: &[Seq], limit: u32) -> Decided<Vec<Run>> {
    // Nobody would ever take a run from an engine that is dead already.
    if matches!(draft.row(&RowKey::Engine(engine))?, Some(Row::Engine(row)) if row.dead) {
        return Err(Stop::Refused(Refusal::EngineDead(engine)));
    }
    let scan = Scan::Ready(lanes.to_vec());
    let (from, to) = (RowKey::Run(Seq(i64::MIN)), RowKey::Run(Seq(i64::MAX)));
    let is_ready = |run: &Run| run.phase == Phase::Ready && lanes.contains(&run.lane);
    // Runs that became ready in this very transaction are as ready as the others.
    let mut ready: Vec<Run> = draft
        .found_still(&scan, limit, |row| row.as_run().is_some_and(is_ready))?
        .into_iter()
        .chain(draft.written(from, to))
        .filter_map(Row::as_run)
        .filter(|run| is_ready(run))
        .cloned()
        .collect();
    ready.sort_by_key(|run| run.rank);
    ready.dedup_by_key(|run| run.id);
    ready.truncate(limit as usize);
    ready.into_iter().map(|run| lease_one(draft, engine, run)).collect()
}

fn lease_one<E>(draft: &mut Draft, engine: EngineId, mut run: Run) -> Decided<Run, E> {
    if !run.started {
        gate::start(draft, &run)?;
        run.started = true;
        run.deadline = deadline(draft, &run)?;
    }
    run.fence += 1;
    run.owner = Some(engine);
    run.phase = Phase::Driven;
    run.answered.clear();
    draft.put(run.clone());
    Ok(run)
}

/// When a run that starts now has taken too long, by the definition of its own version. What
/// follows another run has all the time that it needs.
fn deadline<E>(draft: &Draft, run: &Run) -> Decided<Option<Timestamp>, E> {
    let catalog = draft.catalog(&run.ws)?;
    let timeout_ms = catalog.definition(run.lane).and_then(|workflow| workflow.timeout_ms);
    let timeout_ms = timeout_ms.filter(|_| run.purpose == Purpose::Ordinary);
    Ok(timeout_ms.map(|ms| draft.now().plus_ms(ms)))
}
