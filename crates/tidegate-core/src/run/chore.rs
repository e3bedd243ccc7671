//! Chores: work that is too large for one transaction. The sweep of any engine does it in chunks.
//!
//! A chunk and the progress of the chore are written in one transaction, so that after a crash no
//! work is repeated or lost. The due time of a chore does not change until it is finished, so that
//! the oldest chore comes first.

use super::{control, end, wake};
use crate::{
    command::{Answer, Refusal},
    delivery,
    draft::{Decided, Draft, Stop},
    flow::pause,
    id::{ChoreId, RunId, Seq},
    overrides,
    reads::Scan,
    row::{
        Bulk, BulkCounts, BulkFilter, BulkWhat, Chore, LiveState, Phase, Row, RowKey, Run, Work,
        Workspace,
    },
    version,
};

/// Number of runs that one chunk of a bulk operation processes.
const LOOKED_AT: u32 = 256;

/// How long the results of a bulk operation can be read after its end.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Creates a chore, which the sweep will process.
pub fn leave<E>(
    draft: &mut Draft,
    ws: &Workspace,
    topic: Option<String>,
    work: Work,
) -> Decided<ChoreId, E> {
    let (id, due) = (draft.new_chore_id()?, Some(draft.now()));
    draft.put(Chore { id, ws: ws.clone(), topic, due, work });
    Ok(id)
}

/// Starts a bulk operation on all runs that match a filter and have been admitted before it.
pub fn bulk(
    draft: &mut Draft,
    ws: &Workspace,
    what: &BulkWhat,
    filter: &BulkFilter,
) -> Decided<ChoreId> {
    let catalog = draft.catalog(ws)?;
    let meant = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|it| it == is);
    let versions = catalog.entries().flat_map(|(_, entry)| entry.versions.values());
    let versions = versions.filter(|version| {
        meant(&filter.app, &version.def.app)
            && meant(&filter.workflow, &version.def.name)
            && filter.version.is_none_or(|number| number == version.number)
    });
    let mut lanes: Vec<Seq> = versions.map(|version| version.lane).collect();
    lanes.sort();
    let (what, filter, counts) = (what.clone(), filter.clone(), BulkCounts::default());
    let bulk = Bulk { what, filter, lanes, after: Seq(i64::MIN), counts, ended_at: None };
    leave(draft, ws, None, Work::Bulk(bulk))
}

/// Processes the next chunk of a chore. The answer has the verdicts on an event that was delivered.
pub fn sweep(draft: &mut Draft, seq: Seq) -> Decided<Answer> {
    let Some(Row::Chore(mut chore)) = draft.row(&RowKey::Chore(seq))?.cloned() else {
        return Ok(Answer::Done);
    };
    // Unfinished work continues even if its due time is in the future, because the clock has
    // stepped back. Scheduled work checks the time itself.
    if chore.due.is_none_or(|due| due > draft.now() && chore.is_over()) {
        return Ok(Answer::Done);
    }
    if draft.is_crowded() {
        return Err(Stop::Full);
    }
    let left = match chore.work.clone() {
        Work::Wake { event, after } => wake::go_on(draft, &chore, event, after)?,
        Work::Orphans { reason, runs } => orphans(draft, reason, runs)?,
        Work::Renumber { rest } => {
            let rest = version::renumber_rest(draft, &chore.ws, rest)?;
            (!rest.is_empty()).then_some(Work::Renumber { rest })
        }
        Work::Bulk(bulk) => go_on(draft, &mut chore, bulk)?.map(Work::Bulk),
        Work::ExpireOverride { lane } => {
            let done = overrides::expire(draft, &chore, lane)?;
            (!done).then_some(Work::ExpireOverride { lane })
        }
        Work::MarkGates { target, ranges } => {
            let ranges = overrides::mark_some(draft, &target, ranges)?;
            (!ranges.is_empty()).then_some(Work::MarkGates { target, ranges })
        }
        Work::HoldBack { target, from } => {
            let from = pause::hold_back(draft, &chore, &target, from)?;
            from.map(|from| Work::HoldBack { target, from })
        }
        Work::Deliver(deferred) => return delivery::deliver(draft, &chore, &deferred),
    };
    match left {
        Some(work) => draft.put(Chore { work, ..chore }),
        None => draft.delete(RowKey::Chore(seq)),
    }
    Ok(Answer::Done)
}

/// Cancels children whose parent was cancelled, as many as fit into the transaction. Returns the
/// remaining work.
fn orphans(draft: &mut Draft, reason: String, runs: Vec<Seq>) -> Decided<Option<Work>> {
    let mut left = runs.into_iter();
    while let Some(&run) = left.as_slice().first() {
        if draft.is_crowded() {
            return Ok(Some(Work::Orphans { reason, runs: left.collect() }));
        }
        if let Some(run) = draft.run(run)?.cloned() {
            end::cancel(draft, run, reason.clone(), None)?;
        }
        left.next();
    }
    Ok(None)
}

/// Processes the next chunk of a bulk operation. Returns none if its results have been stored long
/// enough, so that the row can be deleted.
fn go_on(draft: &mut Draft, chore: &mut Chore, mut bulk: Bulk) -> Decided<Option<Bulk>> {
    if bulk.ended_at.is_some() {
        return Ok(None);
    }
    if let Some(&lane) = bulk.lanes.first()
        && look_at(draft, chore, &mut bulk, lane)?
    {
        bulk.lanes.remove(0);
        bulk.after = Seq(i64::MIN);
    }
    if bulk.lanes.is_empty() {
        bulk.ended_at = Some(draft.now());
        chore.due = Some(draft.now().plus_ms(KEPT_MS));
    }
    Ok(Some(bulk))
}

/// Processes the next runs of a lane. Returns whether they were the last ones.
fn look_at(draft: &mut Draft, chore: &Chore, bulk: &mut Bulk, lane: Seq) -> Decided<bool> {
    let scan = Scan::Lane(lane, bulk.after);
    let found = draft.found_still(&scan, LOOKED_AT, |_| true)?;
    let complete = found.len() < LOOKED_AT as usize;
    let runs: Vec<Run> = found.into_iter().filter_map(Row::as_run).cloned().collect();
    let mut acted = false;
    for run in runs {
        if run.id.seq > chore.id.seq {
            return Ok(true);
        }
        if is_meant(bulk, &run) {
            match draft.keep_or_undo(|draft| act(draft, &chore.ws, bulk, run.id)) {
                Ok(done) => bulk.counts.done += u32::from(done),
                Err(Stop::Need(reads)) => return Err(Stop::Need(reads)),
                Err(Stop::Full) if acted => return Ok(false),
                // The run does not fit even into a transaction of its own. It is skipped, because
                // the operation could never continue otherwise.
                Err(Stop::Full | Stop::Refused(_)) => bulk.counts.refused += 1,
            }
            acted = true;
        }
        bulk.after = run.id.seq;
        if draft.is_crowded() {
            return Ok(false);
        }
    }
    Ok(complete)
}

/// Applies the action to one run, if the run still matches after it was locked.
fn act(draft: &mut Draft, ws: &Workspace, bulk: &Bulk, run: RunId) -> Decided<bool> {
    if !draft.run::<Refusal>(run.seq)?.is_some_and(|run| is_meant(bulk, run)) {
        return Ok(false);
    }
    match &bulk.what {
        BulkWhat::Cancel { reason } => control::cancel(draft, ws, run, reason)?,
        BulkWhat::Pause => control::pause(draft, ws, run)?,
        BulkWhat::Resume => control::resume(draft, ws, run)?,
    }
    Ok(true)
}

/// Whether a run matches the filter, and the action has an effect in its current state.
fn is_meant(bulk: &Bulk, run: &Run) -> bool {
    let state = match run.phase {
        Phase::Queued { .. } | Phase::Ready => LiveState::Queued,
        Phase::Driven => LiveState::Running,
        Phase::Waiting => LiveState::Waiting,
        Phase::Paused => LiveState::Paused,
        Phase::Stopping => return false,
    };
    let paused = run.phase == Phase::Paused || run.pausing;
    let filter = &bulk.filter;
    let early = |before| run.queued_at < before;
    filter.state.is_none_or(|wanted| wanted == state)
        && filter.queued_before.is_none_or(early)
        && filter.waits_at.as_ref().is_none_or(|target| target.has_waiting(run))
        && match bulk.what {
            BulkWhat::Cancel { .. } => true,
            BulkWhat::Pause => !paused,
            BulkWhat::Resume => paused,
        }
}
