//! Signals by name: a signal goes to the run that waits for its name, whichever that is.
//!
//! At most one run of a workspace waits for a name. The waits are in the index of waits for events,
//! under one topic, where the name is the value: waits for different names have different latches.

use super::wait;
use crate::{
    draft::{Decided, Draft},
    id::{RunId, Seq},
    json::Payload,
    key::Scalar,
    reads::{Latch, Mode, Scan},
    row::{Row, RowKey, Run, RunError, Step, StepKind, Workspace},
};

/// Topic of the waits for named signals. No event has this name.
pub(crate) const TOPIC: &str = "\u{1}signal";

/// Path of the name in the index.
const PATH: &str = "name";

/// Error code of a wait for a name that another run waits for.
const TAKEN: &str = "SignalTaken";

/// Returns the path and the value by which a wait for a name is found.
pub(crate) fn place(name: &str) -> (String, Vec<u8>) {
    (PATH.to_owned(), wait::encoded_scalar(Scalar::text(name.to_owned())))
}

pub(crate) fn latch(ws: &Workspace, name: &str) -> Latch {
    let (path, value) = place(name);
    Latch::matching(ws, TOPIC, &path, &value)
}

/// Sends a signal to the run that waits for its name. Returns the run; none if no run waits.
pub fn signal<E>(
    draft: &mut Draft,
    ws: &Workspace,
    name: &str,
    data: &Payload,
) -> Decided<Option<RunId>, E> {
    draft.latch(latch(ws, name), Mode::Shared)?;
    let Some((run, step)) = waiter(draft, ws, name)? else { return Ok(None) };
    let Some(run) = draft.run(run)?.cloned() else { return Ok(None) };
    if !run.waits.iter().any(|wait| wait.step == step) {
        return Ok(None);
    }
    let id = run.id;
    wait::answer(draft, run, &step, Ok(data.clone()))?;
    Ok(Some(id))
}

/// Lets a step wait for a name, for which no other step may wait. If one does, either its wait ends
/// as if its time were over, or this step fails. Returns whether the step may wait.
pub(super) fn claim<E>(
    draft: &mut Draft,
    run: &mut Run,
    step: &str,
    name: &str,
    replace: bool,
) -> Decided<bool, E> {
    draft.latch(latch(&run.ws, name), Mode::Exclusive)?;
    let Some((holder, held)) = waiter(draft, &run.ws, name)? else { return Ok(true) };
    if !replace {
        let message = format!("another step waits for the signal `{name}`");
        let (id, kind, result) =
            (step.to_owned(), StepKind::Signal, Err(RunError::new(TAKEN, message)));
        let (fence, at, seq) = (run.fence, draft.now(), draft.next_seq()?);
        draft.put(Step { run: run.id.seq, id, kind, fence, at, result, seq });
        return Ok(false);
    }
    // The holder may be this run: what is decided for it so far counts.
    draft.put(run.clone());
    if let Some(holder) = draft.run(holder)?.cloned() {
        wait::answer(draft, holder, &held, Ok(Payload::null()))?;
    }
    *run = draft.run(run.id.seq)?.cloned().expect("the end of a wait does not end the run");
    Ok(true)
}

/// Returns the run and the step that wait for a name.
fn waiter<E>(draft: &Draft, ws: &Workspace, name: &str) -> Decided<Option<(Seq, String)>, E> {
    let (path, value) = place(name);
    let key = |run, step: &str| {
        let (topic, path, value) = (TOPIC.to_owned(), path.clone(), value.clone());
        RowKey::Wait(ws.clone(), topic, path, value, run, step.to_owned())
    };
    let written = draft.written(key(Seq(i64::MIN), ""), key(Seq(i64::MAX), ""));
    let (topic, first) = (TOPIC.to_owned(), Seq(i64::MIN));
    let scan = Scan::Waits(ws.clone(), topic, path.clone(), value.clone(), first, String::new());
    let rows = draft.found_still(&scan, 1, |_| true)?.into_iter().chain(written);
    let mut waits = rows.filter_map(|row| {
        if let Row::Wait(wait) = row { Some((wait.run, wait.step.clone())) } else { None }
    });
    Ok(waits.next())
}
