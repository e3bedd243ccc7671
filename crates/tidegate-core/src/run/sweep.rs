//! Sweep: processes due gates, runs and chores, and takes runs from dead engines.
//!
//! Rows are found without locks. So each decision checks again, on the locked row, that it is due.

use super::{end, follow_up, wait};
use crate::{
    command::{Answer, Command},
    definition::Overlap,
    delivery,
    draft::{Decided, Draft},
    flow::{claim, control, fold, gate, meter, policy::PolicyKind, queue, step_pool},
    id::Seq,
    json::Payload,
    reads::Scan,
    row::{
        Begun, Class, Engine, EngineId, Gate, GateKey, GateState, Phase, Purpose, Row, RowKey, Run,
        RunError, WaitOn, Work,
    },
    time::Timestamp,
};

/// Default of the number of consecutive engine deaths, while the handler was running, after which
/// a run is paused.
pub const MAX_DEATHS: u32 = 10;

/// Cancellation reason of a run that has waited in a queue for longer than `maxWaitMs`.
pub const WAITED_TOO_LONG: &str = "it waited longer than maxWaitMs";

/// Returns the command that processes a row of a due scan, and the time at which it is due.
/// `stepped` means that the clock may have stepped back since the row was written. Then a row with
/// a time later than `now` is processed at once, and its times are capped: otherwise its delay
/// would be longer by the step of the clock.
pub fn look(row: &Row, now: Timestamp, stepped: bool) -> Option<(Timestamp, Command)> {
    let (due, at_once, command) = if let Some(gate) = row.as_gate() {
        let (ws, key) = (gate.key.scope()?.ws, gate.key.clone());
        (gate.due?, stepped && gate.at > now, Command::SweepGate { ws, gate: key })
    } else if let Some(run) = row.as_run() {
        let command = Command::SweepRun { ws: run.ws.clone(), run: run.id.seq };
        (run.due()?, stepped && is_ahead(run, now), command)
    } else if let Row::Chore(chore) = row {
        let due = chore.due?;
        let at_once = if let Work::Deliver(deferred) = &chore.work {
            stepped && delivery::is_too_far(due, deferred, now)
        } else {
            // Unfinished work is always due, also if the clock has stepped back.
            !chore.is_over() && !chore.is_scheduled()
        };
        (due, at_once, Command::SweepChore { known: Box::new(chore.clone()) })
    } else {
        return None;
    };
    Some((if at_once { due.min(now) } else { due }, command))
}

/// Whether a run was last changed at a time later than `now`.
fn is_ahead(run: &Run, now: Timestamp) -> bool {
    run.trail.marks().last().is_some_and(|mark| mark.0 > now)
}

/// Caps the times of a run to the durations from which they were computed. Times that the author
/// gave directly stay.
fn cap<E>(draft: &Draft, run: &mut Run) -> Decided<(), E> {
    let now = draft.now();
    let cap = |at: Option<Timestamp>, ms: Option<u64>| match ms {
        Some(ms) => at.map(|at| at.capped(now, ms)),
        None => at,
    };
    for wait in &mut run.waits {
        wait.until = cap(wait.until, wait.within_ms);
    }
    let catalog = draft.catalog(&run.ws)?;
    let Some(workflow) = catalog.definition(run.lane) else { return Ok(()) };
    run.deadline = cap(run.deadline, workflow.timeout_ms);
    run.expires_at = cap(run.expires_at, control::expiry(workflow).map(|(_, ms)| ms));
    let policy = match schedule_of(run) {
        Some(schedule) => workflow.overlap(&schedule).map(Overlap::policy),
        None => workflow.policy.as_ref().map(|policy| policy.kind.clone()),
    };
    let queued = match policy {
        Some(PolicyKind::Queue { max_wait_ms, .. }) => max_wait_ms,
        _ => None,
    };
    let gives_up = match run.purpose {
        Purpose::Compensates(_) => Some(workflow.compensate_timeout_ms),
        Purpose::Ordinary | Purpose::OnFailure(_) => queued,
    };
    run.gives_up_at = cap(run.gives_up_at, gives_up);
    Ok(())
}

/// Returns the schedule of a run, if it has the gate of a schedule in its plan.
fn schedule_of(run: &Run) -> Option<String> {
    let mut gates = run.plan.iter().map(|need| &need.gate);
    let gate = gates.find(|gate| gate.class() == Some(Class::Schedule))?;
    Some(gate.scope()?.slot)
}

/// Processes a gate that is due.
pub fn gate<E>(draft: &mut Draft, key: &GateKey) -> Decided<(), E> {
    let Some(row) = draft.gate(key)?.cloned() else { return Ok(()) };
    let now = draft.now();
    // A row with a time later than now was written before the clock stepped back: the branches
    // below cap its times.
    if row.due.is_none_or(|due| due > now && row.at <= now) {
        return Ok(());
    }
    match row.state.clone() {
        GateState::Claim(held) => claim::sweep(draft, row, held),
        GateState::Fold(fold) => fold::sweep(draft, row, fold),
        GateState::Meter(meters) => {
            let until = meter::all_forget_at(&meters).unwrap_or(now);
            if until <= draft.now() {
                draft.delete(RowKey::Gate(row.key));
            } else {
                draft.put(Gate { due: Some(until), ..row });
            }
            Ok(())
        }
        GateState::Slots(mut slots) => {
            // One fold at a time, because its run will probably take the slot.
            if let Some(first) = queue::flushable(draft, &row)? {
                let longest_held = slots.folds.remove(first);
                draft.put(Gate { state: GateState::Slots(slots), ..row });
                fold::retry(draft, &longest_held)?;
            }
            gate::sweep(draft, key)
        }
        GateState::Turns(_) => gate::sweep(draft, key),
        // A share is never due: it changes with its gate.
        GateState::Share(_) => Ok(()),
    }
}

/// Processes a run that is due: its wait has ended, or it has exceeded a deadline.
pub fn run<E>(draft: &mut Draft, seq: Seq) -> Decided<(), E> {
    let Some(mut run) = draft.run(seq)?.cloned() else { return Ok(()) };
    let now = draft.now();
    if run.due().is_some_and(|due| due > now) && is_ahead(&run, now) {
        cap(draft, &mut run)?;
        draft.put(run.clone());
    }
    if run.due().is_none_or(|due| due > now) {
        return Ok(());
    }
    // Both the expiry and another deadline may have passed. The earlier one decides.
    if run.is_expired(now) && run.due() == run.expiry() {
        return end::expire(draft, run);
    }
    if run.deadline.is_some_and(|deadline| deadline <= now) {
        return end::time_out(draft, run);
    }
    let undoes = matches!(run.purpose, Purpose::Compensates(_));
    if undoes && run.entered > 0 && run.gives_up_at.is_some_and(|at| at <= now) {
        return follow_up::let_go(draft, run);
    }
    match run.phase {
        Phase::Waiting if run.is_after() => wait::recheck(draft, run),
        Phase::Waiting => {
            let over = |run: &Run| {
                run.waits.iter().find(|wait| wait.until.is_some_and(|until| until <= now)).cloned()
            };
            while let Some(wait) = over(&run) {
                let result = match wait.on {
                    WaitOn::Time
                    | WaitOn::Event { .. }
                    | WaitOn::Named { .. }
                    | WaitOn::Signal { .. }
                    | WaitOn::Retry
                    | WaitOn::Before { .. } => Ok(Payload::null()),
                    WaitOn::Child { run } => Err(RunError::new(
                        "TimedOut",
                        format!("the child {run} did not end in time"),
                    )),
                };
                wait::answer(draft, run, &wait.step, result)?;
                run = draft.run(seq)?.cloned().expect("the end of a wait does not end the run");
            }
            Ok(())
        }
        Phase::Queued { .. } => end::cancel(draft, run, WAITED_TOO_LONG.to_owned(), None),
        Phase::Ready | Phase::Driven | Phase::Paused | Phase::Stopping => Ok(()),
    }
}

/// Declares an engine dead, if its heartbeat is still `beat`, which was read one lease ago.
pub fn mark_dead<E>(draft: &mut Draft, engine: EngineId, beat: i64) -> Decided<bool, E> {
    match draft.row(&RowKey::Engine(engine))? {
        Some(Row::Engine(row)) if row.beat == beat && !row.dead => {
            let row = Engine { dead: true, ..row.clone() };
            draft.put(row);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Takes a run over from a dead engine.
///
/// If the handler of the run was running at `max_deaths` consecutive engine deaths, the run may be
/// their cause: it is paused until a user resumes it. With 0 no run is paused. A run that is called
/// by URL has no code in the engine and is never paused.
pub fn reap<E>(
    draft: &mut Draft,
    seq: Seq,
    engine: EngineId,
    max_deaths: u32,
) -> Decided<Answer, E> {
    let dead = match draft.row(&RowKey::Engine(engine))? {
        Some(Row::Engine(row)) => row.dead,
        _ => true,
    };
    let Some(mut run) = draft.run(seq)?.cloned() else { return Ok(Answer::Changed(false)) };
    if !dead || run.owner != Some(engine) {
        return Ok(Answer::Changed(false));
    }
    run.owner = None;
    if run.phase == Phase::Stopping {
        end::stopped(draft, run)?;
        return Ok(Answer::Changed(true));
    }
    let freed = step_pool::leave(draft, &mut run, |_| true, |_| false)?;
    draft.set_aside(freed);
    run.takeovers = run.takeovers.saturating_add(1);
    let reason = count_death(draft, &mut run, max_deaths)?;
    if reason.is_none() && !run.pausing {
        gate::requeue(draft, run)?;
        gate::hand_on(draft, Vec::new())?;
        return Ok(Answer::Changed(true));
    }
    let keep = run.executing().min(run.entered);
    gate::release(draft, &mut run, keep)?;
    run.phase = Phase::Paused;
    if reason.is_some() {
        (run.pausing, run.pause_reason) = (true, reason.clone());
    }
    draft.put(run);
    gate::hand_on(draft, Vec::new())?;
    Ok(reason.map_or(Answer::Changed(true), |reason| Answer::Paused { reason }))
}

/// Counts the death of an engine, if it was running this run's handler. Returns the reason for a
/// pause if the maximum is reached.
fn count_death<E>(draft: &Draft, run: &mut Run, max_deaths: u32) -> Decided<Option<String>, E> {
    let catalog = draft.catalog(&run.ws)?;
    if catalog.definition(run.lane).is_some_and(|workflow| workflow.is_called()) {
        return Ok(None);
    }
    match run.begun {
        Begun::Yes => run.deaths += 1,
        Begun::No => {}
        Begun::Untracked => run.deaths = 0,
    }
    run.begun = Begun::No;
    let deaths = run.deaths;
    let paused = max_deaths > 0 && deaths >= max_deaths;
    Ok(paused.then(|| {
        format!(
            "paused after {deaths} worker deaths while it was under way; resume it after fixing \
             the cause"
        )
    }))
}

/// Deletes the row of an engine that is dead and owns no runs.
///
/// It cannot get runs after this check, because a dead engine gets none and its row is locked.
pub fn bury<E>(draft: &mut Draft, engine: EngineId) -> Decided<bool, E> {
    let dead = matches!(draft.row(&RowKey::Engine(engine))?, Some(Row::Engine(row)) if row.dead);
    let owns = |row: &Row| row.as_run().is_some_and(|run| run.owner == Some(engine));
    let bury = draft.found_still(&Scan::Owned(engine), 1, owns)?.is_empty() && dead;
    if bury {
        draft.delete(RowKey::Engine(engine));
    }
    Ok(bury)
}
