//! Checks of verdicts, against the rows and against earlier answers.

use std::collections::BTreeMap;

use tidegate_core::{
    command::{Answer, Command},
    id::Seq,
    row::{Class, Fold, Phase, Row, RowKey, Run},
    time::Timestamp,
};

use super::{
    Checked, Look, deliveries, folds,
    history::{History, Spent, is_direct},
    undoes,
};
use crate::sim::{controls::Pace, state::State};

/// Every workflow that an event triggers has one verdict for it, and the run that it names exists.
pub(super) fn i1(look: &Look<'_>, history: &History) -> Checked {
    for (command, answer) in look.answered() {
        let (Command::Post { ws, events }, Ok(Answer::Posted(posted))) = (command, answer) else {
            continue;
        };
        for (event, posted) in events.iter().zip(posted).filter(|(_, posted)| !posted.deduped) {
            let mut reply: Vec<&str> =
                posted.runs.iter().map(|run| run.workflow.as_str()).collect();
            reply.sort_unstable();
            let specs = look.plan.specs.iter().filter(|spec| spec.triggered(&event.name));
            let mut wanted: Vec<&str> = specs.map(|spec| spec.name.as_str()).collect();
            if posted.deliver_at.is_some() {
                wanted.clear();
            }
            if reply != wanted {
                return Err(format!(
                    "event `{}` in {ws} has verdicts for the wrong workflows: {reply:?}",
                    event.name
                ));
            }
        }
    }
    for reply in &history.told {
        let Some(run) = reply.run else { continue };
        // A `deduped` verdict may name a run that retention has deleted.
        if !is_there(look.state, run.seq) && !history.forgotten.contains(&run.seq) {
            return Err(format!("the verdict names a run that does not exist: {reply:?}"));
        }
    }
    Ok(())
}

/// Every id in an answer names a run, an open window or buffer, or an event.
///
/// Checks only the ids in the answers of this commit, and the ids of rows that it deleted.
pub(super) fn i48(look: &Look<'_>, history: &History) -> Checked {
    let removed = look.deltas.iter().filter_map(|delta| delta.before.as_ref()).flat_map(ids);
    let answered = removed.filter(|id| history.answered.contains(id));
    for id in answered.chain(history.answers.iter().copied()) {
        if !is_there(look.state, id) && !history.forgotten.contains(&id) {
            return Err(format!(
                "id {id} was in an answer to a caller, and cannot be found any more"
            ));
        }
    }
    Ok(())
}

/// Returns the ids that can be found by means of a row.
fn ids(row: &Row) -> Vec<Seq> {
    match row {
        Row::Run(run) => vec![run.id.seq],
        Row::Ended(ended) => vec![ended.id.seq],
        Row::Event(event) => vec![event.id.seq],
        Row::Chore(_) => deliveries::promised(row).into_iter().collect(),
        Row::Gate(gate) => folds::of(gate).map(promised).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns the ids of the runs that a fold will become.
fn promised(fold: &Fold) -> Vec<Seq> {
    let open = Some(fold.run.seq).filter(|_| !fold.only_led());
    fold.full.iter().map(|part| part.run.seq).chain(open).collect()
}

fn is_there(state: &State, id: Seq) -> bool {
    state.run(id).is_some()
        || state.ended(id).is_some()
        || state.row(&RowKey::Event(id)).is_some()
        || state.row(&RowKey::Chore(id)).and_then(deliveries::promised).is_some()
        || state.gates().filter_map(folds::of).any(|fold| promised(fold).contains(&id))
}

/// Whether the costs at these times and `more` now exceed a meter (spec L9).
fn exceeds(spent: &[Spent], more: u64, pace: &Pace, now: Timestamp, slack: i64) -> bool {
    (0..spent.len()).any(|n| {
        let passed = u64::try_from(now.micros() - spent[n].at.micros() + slack).unwrap_or(0);
        let refilled = passed * pace.limit / (pace.per_ms * 1000);
        let costs = || spent[n..].iter().map(|spent| spent.cost);
        let burst = costs().chain([pace.burst]).max().unwrap_or(pace.burst);
        costs().sum::<u64>() + more > burst + refilled
    })
}

/// First starts on a throttled key have the distance that the throttle demands.
pub(super) fn i12(look: &Look<'_>, history: &History) -> Checked {
    for (gate, starts) in &history.starts {
        if starts.last().is_none_or(|start| start.at != look.at) {
            continue;
        }
        let scope = gate.scope().expect("a gate's key");
        let Some(controls) = look.controls(&scope.ws, &scope.name) else { continue };
        let Some(pace) = controls.throttle_at(&scope.slot) else { continue };
        // The throttle rounds start times up to a microsecond.
        if exceeds(starts, 0, pace, look.at, 1) {
            return Err(format!("runs started too close together, at {starts:?}, under {pace:?}"));
        }
    }
    Ok(())
}

/// A rate limit admits exactly as many events as it allows: not more, and not fewer.
#[expect(
    clippy::similar_names,
    reason = "`pace` is the rate of a control, `place` the key of an event"
)]
pub(super) fn i13(look: &Look<'_>, history: &History) -> Checked {
    let mut spent = history.tokens.clone();
    for answer in history.told.iter().filter(|answer| answer.arrives) {
        let Some(controls) = look.controls(&answer.ws, &answer.workflow) else { continue };
        let Some(pace) = controls.rate.as_ref().filter(|_| is_direct(controls)) else { continue };
        let place = answer.place(pace.key);
        let times = spent.entry(place.clone()).or_default();
        let over = exceeds(times, 1, pace, look.at, 0);
        if answer.made().is_some() {
            if over {
                return Err(format!(
                    "{answer:?} was admitted at {} over the limit, after {times:?}",
                    look.at
                ));
            }
            times.push(Spent { at: look.at, cost: 1 });
        }
        let dropped = answer.word == "dropped";
        if dropped && !over && history.is_whole(&place) {
            return Err(format!(
                "{answer:?} was dropped at {} within the limit, after {times:?}",
                look.at
            ));
        }
    }
    Ok(())
}

/// A singleton has at most one live run; under `latest`, one that has started. An event is skipped
/// only if there is such a run.
pub(super) fn i18(look: &Look<'_>, history: &History) -> Checked {
    let mut live: BTreeMap<_, &Run> = BTreeMap::new();
    let over = |run: &&Run| run.phase == Phase::Stopping || undoes(run);
    let is_latest = |run: &Run| {
        let versions = look.plan.spec(&run.workflow).map(|spec| &spec.versions);
        versions.into_iter().flatten().any(|(controls, _)| controls.displaces(Class::Singleton))
    };
    let waits = |run: &&Run| !run.started && is_latest(run);
    for run in look.state.runs().filter(|run| !over(run) && !waits(run)) {
        for need in &run.plan {
            if need.gate.class() == Some(Class::Singleton)
                && let Some(other) = live.insert(&need.gate, run)
            {
                return Err(format!("a singleton has two live runs: {other:?} and {run:?}"));
            }
        }
    }
    for answer in &history.told {
        let Some(holder) = answer.holder else { continue };
        let alive = |run: Option<&Run>| run.is_some_and(|run| run.phase != Phase::Stopping);
        // An event can admit a run, and a later one of the same transaction cancel it (spec L29).
        let ended = look.state.ended(holder.seq);
        let brief = ended.is_some_and(|run| (run.queued_at, run.ended_at) == (look.at, look.at));
        if !alive(look.before(holder.seq)) && !alive(look.state.run(holder.seq)) && !brief {
            return Err(format!("skipped because of a run that is not live: {answer:?}"));
        }
    }
    Ok(())
}

/// Of the events with one idempotency key, one makes a run per period, unless the claim is freed.
pub(super) fn i19(look: &Look<'_>, history: &History) -> Checked {
    let mut claims = history.claims.clone();
    for answer in history.told.iter().filter(|answer| answer.arrives) {
        let Some(controls) = look.controls(&answer.ws, &answer.workflow) else { continue };
        let Some((key, period)) = controls.idempotency.filter(|_| is_direct(controls)) else {
            continue;
        };
        let place = answer.place(key);
        let claim = claims
            .get(&place)
            .filter(|claim| claim.until > look.at && !given_back(history, claim.run.seq));
        if let Some(run) = answer.made() {
            if let Some(claim) = claim {
                return Err(format!(
                    "second run for the idempotency key: {answer:?}, claim {claim:?}"
                ));
            }
            let until = look.at.plus_ms(period);
            claims.insert(place, super::history::Claimed { until, run });
            continue;
        }
        // The claim may be freed later in the same commit.
        let held = claims.get(&place).is_some_and(|claim| claim.until > look.at);
        if answer.word == "deduped" && !held && history.is_whole(&place) {
            return Err(format!("deduped without a claim: {answer:?}"));
        }
    }
    Ok(())
}

/// Whether a run was replaced or expired before its first step, so that its claim was freed.
fn given_back(history: &History, run: Seq) -> bool {
    let replaced = history.replaced.contains(&run) && !history.begun.contains_key(&run);
    replaced || history.expired.contains(&run)
}

/// A repeated `dedupeId` gets the id of the first event, and writes nothing.
pub(super) fn i20(look: &Look<'_>, history: &History) -> Checked {
    let mut known = history.dedupe.clone();
    for (command, answer) in look.answered() {
        if let (Command::CancelDelivery { ws, .. }, Ok(Answer::Undelivered(cancelled))) =
            (command, answer)
            && let Some(id) = &cancelled.dedupe_id
        {
            known.remove(&(ws.clone(), id.clone()));
        }
        let (Command::Post { ws, events }, Ok(Answer::Posted(posted))) = (command, answer) else {
            continue;
        };
        for (event, posted) in events.iter().zip(posted) {
            let Some(id) = &event.dedupe_id else { continue };
            let first = known.get(&(ws.clone(), id.clone()));
            if posted.deduped != first.is_some() || first.is_some_and(|id| *id != posted.id) {
                return Err(format!(
                    "dedupeId `{id}` got {posted:?}, but the first event was {first:?}"
                ));
            }
            known.insert((ws.clone(), id.clone()), posted.id);
        }
        let all = posted.iter().all(|posted| posted.deduped);
        if all && look.commands.len() == 1 && !look.deltas.is_empty() {
            return Err(format!("a repeated event changed rows: {:?}", look.deltas));
        }
    }
    Ok(())
}

impl History {
    /// Records the admissions of a commit, after its checks.
    pub(super) fn count(&mut self, look: &Look<'_>) {
        for reply in self.told.clone().iter().filter(|reply| reply.arrives) {
            let Some(controls) = look.controls(&reply.ws, &reply.workflow) else { continue };
            let Some(run) = reply.made().filter(|_| is_direct(controls)) else { continue };
            if let Some(pace) = &controls.rate {
                self.tokens
                    .entry(reply.place(pace.key))
                    .or_default()
                    .push(Spent { at: look.at, cost: 1 });
            }
            if let Some((key, period)) = controls.idempotency {
                let until = look.at.plus_ms(period);
                self.claims.insert(reply.place(key), super::history::Claimed { until, run });
            }
        }
        for (command, answer) in look.answered() {
            if let (Command::CancelDelivery { ws, .. }, Ok(Answer::Undelivered(cancelled))) =
                (command, answer)
                && let Some(id) = &cancelled.dedupe_id
            {
                self.dedupe.remove(&(ws.clone(), id.clone()));
            }
            if let (Command::Post { ws, events }, Ok(Answer::Posted(posted))) = (command, answer) {
                for (event, posted) in events.iter().zip(posted) {
                    if let Some(id) = event.dedupe_id.clone() {
                        self.dedupe.insert((ws.clone(), id), posted.id);
                    }
                }
            }
        }
    }
}

/// Every run that a verdict named has ended.
pub(super) fn settled(state: &State, history: &History) -> Result<(), (&'static str, String)> {
    let ended = |run: &Seq| state.ended(*run).is_some() || history.forgotten.contains(run);
    match history.promised.iter().find(|run| !ended(run)) {
        Some(run) => Err(("I1", format!("run {run} was named in a verdict and never ended"))),
        None => Ok(()),
    }
}
