//! The ways in which a run ends: it completes, fails, is cancelled or is replaced.

use super::{chore, follow_up, lifecycle, wait};
use crate::{
    catalog::Current,
    definition::Definition,
    draft::{Decided, Draft},
    flow::{
        By, Verdict, claim, control, fold, gate,
        plan::{Candidate, GateStep, IN_PLACE},
        receipts,
    },
    id::{RunId, Seq},
    row::{
        Class, Ended, Ending, GateKey, GateState, Phase, Purpose, Rank, RowKey, Run, RunError,
        Source, Work, Workspace,
    },
    session,
};

/// Number of generations of children that are cancelled in the transaction of their parent. Each
/// generation costs a read, because the runs before say which children there are. A chore cancels
/// the other generations right after.
pub const GENERATIONS_AT_ONCE: usize = 4;

/// Number of runs of a queue that are examined for displacement, and maximum number of displaced
/// runs. Normally there is at most one; there are more only if an earlier release had another
/// policy.
const DISPLACED_FROM: usize = 1000;
const DISPLACED_AT_ONCE: usize = 256;

/// Ends a run: releases its holds and hands the slots on.
pub fn end<E>(draft: &mut Draft, run: Run, ending: Ending) -> Decided<(), E> {
    let freed = leave(draft, run, ending)?;
    gate::hand_on(draft, freed)
}

/// Ends a run and releases its holds. Returns the gates whose slots the caller has to hand on.
fn leave<E>(draft: &mut Draft, mut run: Run, ending: Ending) -> Decided<Vec<GateKey>, E> {
    wait::forget(draft, &mut run);
    session::forget(draft, &mut run);
    let ended = ended(draft, &run, ending);
    follow_up::follow(draft, &mut run, &ended)?;
    let freed = gate::vacate(draft, &mut run, 0)?;
    draft.delete(RowKey::Run(run.id.seq));
    record(draft, &run, ended)?;
    Ok(freed)
}

/// Cancels a run. If the run is driven, its holds are released only when its worker confirms the
/// stop or its lease ends (spec G7).
pub fn cancel<E>(draft: &mut Draft, run: Run, reason: String, by: Option<RunId>) -> Decided<(), E> {
    let freed = call_off(draft, run, Ending::Cancelled { reason, by }, GENERATIONS_AT_ONCE)?;
    gate::hand_on(draft, freed)
}

/// Fails a run that has exceeded its workflow's `timeoutMs`. If the run is driven, its worker is
/// stopped as after a cancellation.
pub fn time_out<E>(draft: &mut Draft, run: Run) -> Decided<(), E> {
    let message = "it took longer than its timeoutMs".to_owned();
    let error = RunError::new("TimedOut", message);
    let freed = call_off(draft, run, Ending::Failed { error }, GENERATIONS_AT_ONCE)?;
    gate::hand_on(draft, freed)
}

/// Cancels a run that was not leased in time, and releases its idempotency claims.
///
/// A batch may have more claims than fit into one transaction. Then the run is not cancelled yet,
/// and the sweep processes it again.
pub fn expire<E>(draft: &mut Draft, run: Run) -> Decided<(), E> {
    if !give_claims_back(draft, &run)? {
        return Ok(());
    }
    let catalog = draft.catalog(&run.ws)?;
    let control = catalog.definition(run.lane).and_then(|definition| control::expiry(definition));
    let control = control.map(|(control, _)| control.name);
    receipts::write_unstarted(draft, &run, Ending::EXPIRED, control, "")?;
    cancel(draft, run, Ending::EXPIRED.to_owned(), None)
}

/// Releases the idempotency claims of a run that has not started. Returns `false` if some are left
/// for the next transaction.
fn give_claims_back<E>(draft: &mut Draft, run: &Run) -> Decided<bool, E> {
    if let Some(claim) = &run.claim {
        claim::give_back(draft, claim, run.id)?;
    }
    match run.source {
        Source::Event(_) => Ok(true),
        Source::Batch(_) => fold::give_back_some(draft, run),
    }
}

/// Ends a run as [`cancel`] does. Returns the gates whose slots the caller has to hand on.
///
/// The children that the run waits for are cancelled, too, because their results are not needed.
fn call_off<E>(
    draft: &mut Draft,
    mut run: Run,
    ending: Ending,
    generations: usize,
) -> Decided<Vec<GateKey>, E> {
    let (ws, children) = (run.ws.clone(), wait::children(&run));
    let reason = match ending {
        Ending::Failed { .. } => format!("parent {} took too long", run.id),
        Ending::Cancelled { .. } | Ending::Completed { .. } => {
            format!("parent {} was cancelled", run.id)
        }
    };
    let mut freed = match run.phase {
        Phase::Stopping => return Ok(Vec::new()),
        Phase::Driven => {
            wait::forget(draft, &mut run);
            session::forget(draft, &mut run);
            gate::drain(draft, &run)?;
            run.phase = Phase::Stopping;
            draft.put(run.clone());
            let ended = ended(draft, &run, ending);
            record(draft, &run, ended)?;
            Vec::new()
        }
        Phase::Queued { .. } | Phase::Ready | Phase::Waiting | Phase::Paused => {
            leave(draft, run, ending)?
        }
    };
    let mut left = Vec::new();
    for child in children {
        if generations == 0 || draft.is_crowded() {
            left.push(child.seq);
        } else if let Some(child) = draft.run(child.seq)?.cloned() {
            let ending = Ending::Cancelled { reason: reason.clone(), by: None };
            freed.extend(call_off(draft, child, ending, generations - 1)?);
        }
    }
    if !left.is_empty() {
        chore::leave(draft, &ws, None, Work::Orphans { reason, runs: left })?;
    }
    Ok(freed)
}

/// Releases the holds of a cancelled run, after its worker has stopped or its engine was declared
/// dead.
pub fn stopped<E>(draft: &mut Draft, mut run: Run) -> Decided<(), E> {
    follow_up::follow_stopped(draft, &mut run)?;
    gate::release(draft, &mut run, 0)?;
    draft.delete(RowKey::Run(run.id.seq));
    Ok(())
}

/// Result of replacing a run.
#[derive(Debug)]
pub struct Replaced {
    /// The replaced run, as it was before.
    pub old: Run,
    /// The gates whose slots have to be handed on, after the new run is in the queue.
    pub freed: Vec<GateKey>,
    /// The tier of the new run in the gate's queue, if it differs from the tier in its plan.
    pub tier: Option<i64>,
}

/// Replaces the run that holds the gate, or the queued run that replaced an earlier holder.
///
/// While the worker of the old run is stopping, the new run is first in the queue. At the gate of a
/// policy or a schedule there may be other queued runs: they are not replaced and keep their
/// positions.
pub fn replace<E>(
    draft: &mut Draft,
    key: &GateKey,
    newcomer: RunId,
) -> Decided<Option<Replaced>, E> {
    let Some(gate) = draft.gate(key)? else { return Ok(None) };
    let GateState::Slots(slots) = &gate.state else { return Ok(None) };
    let inside = slots.holders.iter().find(|hold| !hold.draining).map(|hold| hold.run.seq);
    let old = if inside.is_some() {
        inside
    } else {
        let queues = key.class().is_some_and(Class::is_arbitrated);
        let first = draft.head_of_queue(gate)?;
        first.filter(|(place, _)| !queues || place.tier == IN_PLACE).map(|(_, seq)| seq)
    };
    let Some(old) = old.map(|seq| draft.run(seq)).transpose()?.flatten().cloned() else {
        return Ok(None);
    };
    if !old.started {
        give_claims_back(draft, &old)?;
    }
    let ending = Ending::Cancelled { reason: "replaced".to_owned(), by: Some(newcomer) };
    let freed = call_off(draft, old.clone(), ending, GENERATIONS_AT_ONCE)?;
    Ok(Some(Replaced { old, freed, tier: None }))
}

/// Cancels the runs of this workflow that have not started and hold the gate or are queued at it.
/// Returns the one with the best position, which the new run takes: its slot, or its position in
/// the queue.
pub fn displace<E>(
    draft: &mut Draft,
    workflow: &Definition,
    step: &GateStep,
    newcomer: RunId,
) -> Decided<Option<Replaced>, E> {
    let Some(gate) = draft.gate(&step.planned.gate)? else { return Ok(None) };
    let GateState::Slots(slots) = &gate.state else { return Ok(None) };
    let queue = if slots.head.is_some() { draft.queue(gate, DISPLACED_FROM)? } else { Vec::new() };
    let holders = slots.holders.iter().filter(|hold| !hold.draining);
    let holders = holders.map(|hold| (IN_PLACE, hold.run.seq));
    let mut unstarted = Vec::new();
    for (tier, seq) in holders.chain(queue.into_iter().map(|(place, seq)| (place.tier, seq))) {
        let Some(run) = draft.run(seq)? else { continue };
        let own = (&run.app, &run.workflow) == (&workflow.app, &workflow.name);
        if own && !run.started && run.purpose == Purpose::Ordinary {
            unstarted.push((tier, run.clone()));
        }
    }
    let (by, mut displaced) = (By::from(step), None::<Replaced>);
    for (tier, run) in unstarted.into_iter().take(DISPLACED_AT_ONCE) {
        give_claims_back(draft, &run)?;
        receipts::write_unstarted(draft, &run, Ending::DISPLACED, Some(by.control), &by.key)?;
        let reason = Ending::DISPLACED.to_owned();
        let ending = Ending::Cancelled { reason, by: Some(newcomer) };
        let freed = call_off(draft, run.clone(), ending, GENERATIONS_AT_ONCE)?;
        match &mut displaced {
            Some(first) => {
                first.freed.extend(freed);
                // The first in the queue need not have the best rank: it may have replaced a run.
                first.old.rank = first.old.rank.min(run.rank);
            }
            None => displaced = Some(Replaced { old: run, freed, tier: Some(tier) }),
        }
    }
    Ok(displaced)
}

/// Cancels the run that leaves a full queue for a new one (spec L19). Its place and all that it
/// holds are given back; no other run takes its position.
pub fn displace_from_queue<E>(draft: &mut Draft, run: Run, by: &By) -> Decided<(), E> {
    give_claims_back(draft, &run)?;
    receipts::write_unstarted(draft, &run, Ending::DISPLACED, Some(by.control), &by.key)?;
    cancel(draft, run, Ending::DISPLACED.to_owned(), None)
}

/// Writes an ended run where its id was given out, and no run was created with it: at the flush of a
/// window or buffer, or at the delivery of a deferred request. `verdict` is the verdict on its event.
pub fn cancel_unstarted(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    (id, source): (RunId, Source),
    verdict: &Verdict,
) {
    let (reason, by) = match verdict {
        Verdict::Deduped { run, .. } => (Ending::DEDUPED.to_owned(), *run),
        Verdict::Rejected { control, reason } => (format!("rejected by {control}: {reason}"), None),
        Verdict::Coalesced { run, .. } => (Ending::COALESCED.to_owned(), Some(*run)),
        Verdict::Dropped { by, .. } => (format!("dropped by {}", by.limiter()), None),
        Verdict::Skipped { by, holder } => {
            (format!("skipped by {}: run {holder} holds it", by.limiter()), None)
        }
        Verdict::QueueFull { by, waiting } => {
            (format!("refused by {}: {waiting} wait in its queue", by.limiter()), None)
        }
        Verdict::Started { .. }
        | Verdict::WaitsForWorker { .. }
        | Verdict::Deferred { .. }
        | Verdict::Queued { .. }
        | Verdict::Buffered { .. }
        | Verdict::Replaced { .. }
        // The event joined a buffer. Another run will have it, whatever the verdict on the buffer.
        | Verdict::HeldByAncestor { .. } => ("buffered".to_owned(), verdict.run()),
    };
    let (workflow, version) = (candidate.workflow(), &candidate.current.version);
    let name = (workflow.app.clone(), workflow.name.clone());
    let (version, now) = ((version.number, version.lane), draft.now());
    let rank = Rank { at: now, seq: id.seq };
    let run = Run::new(id, candidate.ws.clone(), name, version, source, now, rank);
    let ended = ended(draft, &run, Ending::Cancelled { reason, by });
    draft.put(ended);
}

/// Writes an ended run where its id was given out and no run will be created: its window, its buffer
/// or its deferred request was cancelled, or the event or the workflow does not exist any more. So
/// the run's id can still be looked up.
pub fn end_unstarted(
    draft: &mut Draft,
    (ws, app, name): (Workspace, String, String),
    current: Option<&Current>,
    (id, source): (RunId, Source),
    reason: &str,
) {
    let version =
        current.map_or((0, Seq(0)), |current| (current.version.number, current.version.lane));
    let (now, name) = (draft.now(), (app, name));
    let run = Run::new(id, ws, name, version, source, now, Rank { at: now, seq: id.seq });
    let ending = Ending::Cancelled { reason: reason.to_owned(), by: None };
    let ended = ended(draft, &run, ending);
    draft.put(ended);
}

/// Creates the ended row of a run that ends now.
fn ended(draft: &Draft, run: &Run, ending: Ending) -> Ended {
    Ended {
        id: run.id,
        ws: run.ws.clone(),
        app: run.app.clone(),
        workflow: run.workflow.clone(),
        version: run.version,
        source: run.source,
        queued_at: run.queued_at,
        ended_at: draft.now(),
        ending,
        parent: run.parent.as_ref().map(|parent| parent.run),
        then: run.then,
        replay_of: run.replay_of,
        lane: run.lane,
        purpose: run.purpose,
        effect_run: run.effect_run,
        batch_of: run.batch_of,
        batch_costs: run.batch_costs.clone(),
        trail: run.trail.clone(),
        takeovers: run.takeovers,
    }
}

/// Writes the ended run, and notifies the runs that wait for it.
fn record<E>(draft: &mut Draft, run: &Run, ended: Ended) -> Decided<(), E> {
    let result = ended.ending.result();
    let completed = result.is_ok();
    lifecycle::post(draft, run, &ended)?;
    draft.put(ended);
    if let Some(next) = run.then.map(|next| draft.run(next.seq)).transpose()?.flatten().cloned() {
        wait::ended_before(draft, next, run.id, completed)?;
    }
    if let Some(parent) = &run.parent
        && let Some(waiting) = draft.run(parent.run)?.cloned()
    {
        wait::answer(draft, waiting, &parent.step, result)?;
    }
    Ok(())
}
