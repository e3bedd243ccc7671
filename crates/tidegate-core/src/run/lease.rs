//! Leasing: an engine registers the lanes that it serves and leases ready runs, each with a new
//! fence. Only a lease makes a run driven.

use std::collections::BTreeSet;

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Missing, Stop},
    flow::{adaptive, pause, step_pool},
    id::Seq,
    reads::Scan,
    row::{Begun, Engine, EngineId, Phase, Purpose, Row, RowKey, Run},
    time::Timestamp,
    turn::{self, Claim},
};

/// Number of engines that are read at first.
const ENGINES_READ: u32 = 64;

/// Leases up to `limit` ready runs to an engine. The workspaces of the claims take turns, the
/// workflows of each workspace take turns, and the runs of a workflow are ordered by rank.
pub fn lease(
    draft: &mut Draft,
    engine: EngineId,
    claims: &[(Claim, u32)],
    serves: &BTreeSet<Seq>,
    limit: u32,
) -> Decided<Vec<Run>> {
    let (from, to) = (RowKey::Run(Seq(i64::MIN)), RowKey::Run(Seq(i64::MAX)));
    let now = draft.now();
    let is_ready =
        |run: &Run| run.phase == Phase::Ready && serves.contains(&run.lane) && !run.is_expired(now);
    let (mut missing, mut ready) = (Missing::default(), Vec::new());
    for (claim, limit) in claims {
        let scan = Scan::Ready(claim.clone());
        let is_ready = |row: &Row| row.as_run().is_some_and(is_ready);
        let found = missing.note(draft.found_still(&scan, *limit, is_ready))?;
        // Runs that became ready in this same transaction are included.
        let here = draft.written(from.clone(), to.clone());
        let here = found.unwrap_or_default().into_iter().chain(here.filter(|row| is_ready(row)));
        ready.push(claim.take(here.filter_map(Row::as_run), *limit));
    }
    missing.settle()?;
    let ready: Vec<Run> = turn::in_rounds(ready, limit).into_iter().cloned().collect();
    // A dead or unknown engine must not get runs, because no engine would take them over from it.
    // This check is last, because a probe has no engine rows: it would stop here and not record the
    // other reads.
    alive(draft, engine)?;
    let mut leased = Vec::with_capacity(ready.len());
    for run in ready {
        match pause::of(draft, &run)? {
            // The run became ready before the pause.
            Some(pause) => pause::wait(draft, run, &pause)?,
            None => leased.push(lease_one(draft, engine, run)?),
        }
    }
    Ok(leased)
}

/// Stores the lanes whose runs an engine leases. Runs of lanes that no live engine serves are
/// stranded.
pub fn serve(draft: &mut Draft, engine: EngineId, lanes: &[Seq]) -> Decided<()> {
    let mut row = alive(draft, engine)?;
    row.serves = lanes.to_vec();
    row.serves.sort_unstable();
    row.serves.dedup();
    draft.put(row);
    Ok(())
}

/// Returns the lanes that live engines serve, according to their rows.
///
/// An engine that has crashed counts as live until another engine has declared it dead.
pub fn served<E>(draft: &Draft) -> Decided<BTreeSet<Seq>, E> {
    let engines = draft.found_all(&Scan::Engines, ENGINES_READ)?.into_iter();
    let engines = engines.filter_map(|row| {
        let Row::Engine(engine) = row else { return None };
        (!engine.dead).then_some(&engine.serves)
    });
    Ok(engines.flatten().copied().collect())
}

/// Returns the row of an engine; a refusal if it is dead or has no row.
fn alive(draft: &Draft, engine: EngineId) -> Decided<Engine> {
    match draft.row(&RowKey::Engine(engine))? {
        Some(Row::Engine(row)) if !row.dead => Ok(row.clone()),
        Some(_) => Err(Stop::Refused(Refusal::EngineDead(engine))),
        None => Err(Stop::Refused(Refusal::NoEngine(engine))),
    }
}

fn lease_one<E>(draft: &mut Draft, engine: EngineId, mut run: Run) -> Decided<Run, E> {
    step_pool::start(draft, &mut run)?;
    adaptive::begin(draft, &mut run)?;
    if !run.started {
        run.started = true;
        run.deadline = deadline(draft, &run)?;
    }
    run.fence += 1;
    run.owner = Some(engine);
    run.phase = Phase::Driven;
    run.answered.clear();
    if run.begun == Begun::Yes {
        run.begun = Begun::No;
    }
    draft.put(run.clone());
    Ok(run)
}

/// Returns the deadline of a run that starts now, by `timeoutMs` of its own version. Follow-up runs
/// have no deadline.
fn deadline<E>(draft: &Draft, run: &Run) -> Decided<Option<Timestamp>, E> {
    let catalog = draft.catalog(&run.ws)?;
    let timeout_ms = catalog.definition(run.lane).and_then(|workflow| workflow.timeout_ms);
    let timeout_ms = timeout_ms.filter(|_| run.purpose == Purpose::Ordinary);
    Ok(timeout_ms.map(|ms| draft.now().plus_ms(ms)))
}
