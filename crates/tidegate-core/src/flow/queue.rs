//! Queue: the bound of a limit's queue, and what happens to a run that finds it full (spec L19).
//!
//! The bound is checked once, when a run is created, at the gate where it would wait. Runs that
//! come to the gate later (wakes, retries, runs from the queue of an earlier gate) always join. A
//! gate row keeps the number of its waiting runs only while runs with a bound wait there.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    control, gate,
    plan::Candidate,
    verdict::{By, Verdict},
};
use crate::{
    definition::{Code, Fields, Problems, Reported},
    draft::{Decided, Draft, Stop},
    id::{RunId, Seq},
    row::{Class, Gate, GateKey, GateState, Phase, PlannedGate, Purpose, Run, Slots},
    run::end,
};

/// Number of waiting runs that are examined to find one that may be displaced. Nearly always the
/// first of them may be.
const EXAMINED: usize = 1000;

/// Number of waiting runs that are examined first.
const EXAMINED_FIRST: usize = 8;

/// The `queue` settings of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Maximum number of runs that wait in the queue of one key.
    pub max_waiting: u32,
    /// What happens to a run that would exceed it.
    #[serde(default)]
    pub on_overflow: OnOverflow,
}

/// The bound of one gate's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounded {
    /// The settings.
    pub queue: Queue,
    /// Whether it depends on the data of a run if it enters: by a cost, or because the run brings
    /// another limit.
    pub by_data: bool,
}

impl Bounded {
    /// The bound of a gate at which each run takes one unit.
    pub(crate) fn of_one(queue: Queue) -> Bounded {
        Bounded { queue, by_data: false }
    }
}

/// What happens when a new run finds a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnOverflow {
    /// The new run is refused.
    #[default]
    Reject,
    /// The first run of the queue is cancelled as `displaced`.
    DropOldest,
    /// The last run of the queue is cancelled as `displaced`.
    DropNewest,
}

/// The words that an author writes for [`OnOverflow`].
const WORDS: [(&str, OnOverflow); 3] = [
    ("reject", OnOverflow::Reject),
    ("dropOldest", OnOverflow::DropOldest),
    ("dropNewest", OnOverflow::DropNewest),
];

impl Queue {
    /// Reads the field `queue` of a limit.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Option<Queue>, Reported> {
        let Some(value) = fields.get("queue") else { return Ok(None) };
        let at = fields.field("queue");
        let known = ["maxWaiting", "onOverflow"];
        let mut inner = Fields::open(value, &at, &known, fields.problems())?;
        let most = inner.number("maxWaiting", 0, u64::from(u32::MAX)).and_then(|most| {
            let most = most.and_then(|most| u32::try_from(most).ok());
            most.ok_or_else(|| inner.missing("maxWaiting", "a whole number, 0 for no queue"))
        });
        let on_overflow = inner.word("onOverflow", &WORDS);
        let (max_waiting, on_overflow) = (most?, on_overflow?.unwrap_or_default());
        if max_waiting == 0 && on_overflow != OnOverflow::Reject {
            let fix = "write 1 or more, or onOverflow `reject`";
            let message = format!("must be at least 1 to drop waiting runs, got 0: {fix}");
            return Err(inner.error(Code::OutOfRange, "maxWaiting", message));
        }
        Ok(Some(Queue { max_waiting, on_overflow }))
    }

    pub(crate) fn to_value(self) -> Value {
        super::written(&self, &[("onOverflow", json!("reject"))])
    }

    /// Whether a full queue makes room by cancelling a waiting run.
    pub fn displaces(self) -> bool {
        self.on_overflow != OnOverflow::Reject
    }

    /// Reports a bound that would lose events: runs that have started, or a whole batch.
    ///
    /// `many` is the fold whose events become one run, as [`run_of_many`](super::batch::run_of_many)
    /// names it.
    pub(crate) fn check(
        self,
        at: &str,
        executing: bool,
        many: Option<&str>,
        problems: &mut Problems,
    ) {
        let field = format!("{at}.queue.onOverflow");
        if self.displaces() && executing {
            let rule = "drops waiting runs, and with the span `executing` runs that have started";
            let fix = "write span `run`, or onOverflow `reject`";
            problems.error(Code::Conflict, &field, format!("{rule} wait, too: {fix}"));
        } else if self.displaces()
            && let Some(many) = many
        {
            let fold = if many == "batch" { "full buffer" } else { "window" };
            let fix = format!("write onOverflow `reject`, with which a {fold} stays open");
            let message = format!("would drop all events of a waiting {many}: {fix}");
            problems.error(Code::Conflict, &field, message);
        }
    }
}

/// Applies the bound of the queue that a new run has joined: refuses the run, or displaces another.
///
/// Checked after the run has its place, so that slots freed by runs that it replaces count.
pub fn check(
    draft: &mut Draft,
    candidate: &Candidate<'_>,
    newcomer: RunId,
) -> Decided<(), Verdict> {
    if !candidate.plan()?.iter().any(|step| step.planned.bounded) {
        return Ok(());
    }
    let Some(run) = draft.run(newcomer.seq)? else { return Ok(()) };
    let (Phase::Queued { .. }, Some(need)) = (run.phase, run.plan.get(run.entered)) else {
        return Ok(());
    };
    let Some(queue) = bound(candidate, need) else { return Ok(()) };
    let Some(mut gate) = draft.gate(&need.gate)?.cloned() else { return Ok(()) };
    let waiting = learn(draft, &mut gate, queue)?;
    draft.put(gate.clone());
    if waiting <= queue.max_waiting {
        return Ok(());
    }
    let by = By::gate(&gate.key);
    let victim =
        if queue.displaces() { victim(draft, candidate, &gate, queue, newcomer)? } else { None };
    match victim {
        Some(run) => end::displace_from_queue(draft, run, &by),
        None => Err(Stop::Refused(Verdict::QueueFull { by, waiting: waiting - 1 })),
    }
}

/// Returns the bound of a planned gate's queue by the definition of this moment.
fn bound(candidate: &Candidate<'_>, need: &PlannedGate) -> Option<Queue> {
    // Gates of limits without a bound need not be decoded.
    let scope = Some(&need.gate).filter(|_| need.bounded).and_then(GateKey::scope)?;
    (control::owner(scope.class).queue)(candidate.workflow(), &scope).map(|bound| bound.queue)
}

/// Returns the number of waiting runs, and stores it if the row does not have it.
///
/// The row lacks it if runs were waiting when the bound was added. With `reject` counting stops
/// above the bound: the new run is refused then, and its changes are undone.
fn learn(draft: &Draft, gate: &mut Gate, queue: Queue) -> Decided<u32, Verdict> {
    let most = if queue.displaces() { u32::MAX } else { queue.max_waiting.saturating_add(1) };
    let waiting = waiting(draft, gate, most)?;
    if let GateState::Slots(slots) = &mut gate.state
        && waiting < most
    {
        slots.waiting = Some(waiting);
    }
    Ok(waiting)
}

/// Returns the number of runs in a gate's queue. Stops at `most` if the runs have to be counted.
fn waiting<E>(draft: &Draft, gate: &Gate, most: u32) -> Decided<u32, E> {
    match &gate.state {
        GateState::Slots(slots) if slots.head.is_none() => Ok(0),
        GateState::Slots(slots) if slots.waiting.is_some() => Ok(slots.waiting.unwrap_or_default()),
        GateState::Slots(_) => draft.length_of_queue(gate, most),
        GateState::Turns(_)
        | GateState::Meter(_)
        | GateState::Fold(_)
        | GateState::Claim(_)
        | GateState::Share(_) => Ok(0),
    }
}

/// Finds the run that leaves a full queue. None if no run may be displaced.
fn victim(
    draft: &Draft,
    candidate: &Candidate<'_>,
    gate: &Gate,
    queue: Queue,
    newcomer: RunId,
) -> Decided<Option<Run>, Verdict> {
    let mut examined = EXAMINED_FIRST;
    loop {
        let places = match queue.on_overflow {
            OnOverflow::DropNewest => draft.end_of_queue(gate, examined)?,
            OnOverflow::DropOldest | OnOverflow::Reject => draft.queue(gate, examined)?,
        };
        let is_victim = |seq: &Seq| {
            let run = draft.seen_run(*seq);
            run.is_some_and(|run| run.id != newcomer && is_displaceable(candidate, gate, run))
        };
        let victim = places.iter().map(|(_, seq)| *seq).find(is_victim);
        if let Some(seq) = victim {
            return Ok(draft.run(seq)?.cloned());
        }
        if places.len() < examined || examined >= EXAMINED {
            return Ok(None);
        }
        examined = EXAMINED;
    }
}

/// Whether a waiting run may be displaced: it has not started, came to this queue when it was
/// created, and belongs to the newcomer's own workflow or action.
fn is_displaceable(candidate: &Candidate<'_>, gate: &Gate, run: &Run) -> bool {
    let workflow = candidate.workflow();
    let need = run.plan.get(run.entered).filter(|need| need.gate == gate.key);
    let own = (&run.app, &run.workflow) == (&workflow.app, &workflow.name);
    own && !run.started
        && run.purpose == Purpose::Ordinary
        && need.is_some_and(|need| !need.after_queue)
}

/// Returns the position of the first fold that the gate would not refuse now; none if all have to
/// wait (spec F4, L19).
pub fn flushable<E>(draft: &Draft, gate: &Gate) -> Decided<Option<usize>, E> {
    let GateState::Slots(slots) = &gate.state else { return Ok(None) };
    for (n, fold) in slots.folds.iter().enumerate() {
        if !refuses(draft, gate, slots, fold)? {
            return Ok(Some(n));
        }
    }
    Ok(None)
}

/// Whether a gate would refuse the run of a fold now. A fold that is tried again although it is
/// refused would be tried again at once, without end.
fn refuses<E>(draft: &Draft, gate: &Gate, slots: &Slots, fold: &GateKey) -> Decided<bool, E> {
    let (Some(scope), Some(fold)) = (gate.key.scope(), fold.scope()) else { return Ok(false) };
    let catalog = draft.catalog(&scope.ws)?;
    let entry = catalog.entry(&fold.app, &fold.name);
    let current = entry.and_then(|entry| entry.current.as_ref());
    let bound =
        current.and_then(|current| (control::owner(scope.class).queue)(&current.workflow, &scope));
    let Some(Bounded { queue, by_data }) = bound else {
        // These refuse while they are busy, by their mode. A run that is being stopped does not
        // count. Other gates do not refuse: the bound was removed.
        let by_mode = matches!(scope.class, Class::Singleton | Class::Policy);
        let busy = slots.head.is_some() || slots.holders.iter().any(|hold| !hold.draining);
        return Ok(by_mode && busy);
    };
    if waiting(draft, gate, queue.max_waiting)? < queue.max_waiting {
        return Ok(false);
    }
    // The data of the run is not read here. Whatever its cost and its limit, it enters an empty
    // gate.
    let empty = slots.holders.is_empty() && !gate::is_closed(draft, gate)?;
    let room = empty || (!by_data && gate::has_room(draft, gate)?);
    Ok(slots.head.is_some() || !room)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::definition::testing::reread;

    // spec L19, A4
    #[test]
    fn a_bound_that_would_lose_events_is_refused_with_the_fix() {
        let drops = json!({ "maxWaiting": 1, "onOverflow": "dropOldest" });
        let limit = |queue: serde_json::Value, span: &str| json!({ "limit": 1, "span": span, "queue": queue });
        let handoff = |queue: serde_json::Value| json!({ "type": "singleton", "onNewVersion": "drain", "queue": queue });
        let batch = json!({ "maxSize": 2, "timeoutMs": 5 });
        let window = json!({ "periodMs": 5, "keep": "all" });
        let policy = |name: &str| json!({ "policy": name, "queue": drops });
        for (controls, expected) in [
            (json!({ "concurrency": limit(json!({ "maxWaiting": 0 }), "executing") }), "ok"),
            (json!({ "concurrency": limit(drops.clone(), "run") }), "ok"),
            (json!({ "handoff": handoff(drops.clone()) }), "ok"),
            (json!({ "flow": "f", "concurrency": policy("queue") }), "ok"),
            (
                json!({ "concurrency": limit(drops.clone(), "executing") }),
                "concurrency.queue.onOverflow drops waiting runs, and with the span `executing` \
                 runs that have started wait, too: write span `run`, or onOverflow `reject`",
            ),
            (
                json!({ "concurrency": limit(drops.clone(), "run"), "batch": batch }),
                "concurrency.queue.onOverflow would drop all events of a waiting batch: write \
                 onOverflow `reject`, with which a full buffer stays open",
            ),
            (
                json!({ "handoff": handoff(drops.clone()), "batch": batch }),
                "handoff.queue.onOverflow would drop all events of a waiting batch",
            ),
            (
                json!({ "concurrency": limit(drops.clone(), "run"), "debounce": window }),
                "concurrency.queue.onOverflow would drop all events of a waiting window: write \
                 onOverflow `reject`, with which a window stays open",
            ),
            (
                json!({ "handoff": handoff(drops.clone()), "debounce": window }),
                "handoff.queue.onOverflow would drop all events of a waiting window",
            ),
            (
                json!({ "flow": "f", "concurrency": policy("queue"), "debounce": window }),
                "concurrency.queue.onOverflow would drop all events of a waiting window",
            ),
            (
                json!({ "concurrency": limit(json!({ "maxWaiting": 0, "onOverflow": "dropNewest" }),
                    "run") }),
                "concurrency.queue.maxWaiting must be at least 1 to drop waiting runs, got 0: \
                 write 1 or more, or onOverflow `reject`",
            ),
            (
                json!({ "concurrency": limit(json!({ "onOverflow": "reject" }), "run") }),
                "concurrency.queue.maxWaiting is required: a whole number, 0 for no queue",
            ),
            (
                json!({ "concurrency": limit(json!({ "maxWaiting": 1, "onOverflow": "drop" }),
                    "run") }),
                "concurrency.queue.onOverflow has no value `drop`",
            ),
            (
                json!({ "flow": "f", "concurrency": policy("reject") }),
                "concurrency.queue is not known",
            ),
        ] {
            let errors = reread(&controls);
            assert!(errors.contains(expected), "{controls}: {errors}");
        }
    }
}
