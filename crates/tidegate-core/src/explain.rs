//! `why`: explains why a run waits or how it ended, from the same rows that decisions read.

mod waits;

use serde::Serialize;

use self::waits::{listeners, waiting};

use crate::{
    catalog::Limit,
    command::Refusal,
    delivery,
    draft::{Decided, Draft, QUEUE_COUNTED, Stop},
    flow::{
        adaptive::AdaptiveLimit,
        fold,
        meter::{self, Ahead},
        share::{self, Standing},
        verdict::By,
    },
    id::RunId,
    key::Key,
    overrides::Override,
    row::{
        Class, Closed, Ending, Fold, Gate, GateState, Given, Phase, PlannedGate, Purpose, Row,
        RowKey, Run, Span, Wait, WaitOn, Workspace,
    },
    run::lease::served,
    time::{
        Timestamp,
        rfc3339::{OptionalTime, Time},
    },
};

/// Positions in a queue are counted up to this number.
const MAX_PLACE: usize = QUEUE_COUNTED as usize;

/// Number of holders of a full gate that are read to find stranded ones.
const MAX_HOLDERS: usize = 100;

/// Explanation of a run's state: all gates and waits that it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The run.
    pub run: RunId,
    /// The state of the run, in the words of the API.
    pub state: &'static str,
    /// The explanation in one sentence.
    pub sentence: String,
    /// The gates that the run has not entered yet, in order. The run waits for the first one.
    pub gates: Vec<Binding>,
    /// The earliest time at which the run can continue, if that depends only on time.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub earliest: Option<Timestamp>,
    /// The time at which the run is cancelled as expired, unless it has started before.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub expires_at: Option<Timestamp>,
    /// The waits of a waiting run, in the order in which they began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Awaited>,
    /// The window or buffer that collects events for the run, if the run does not exist yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<Collecting>,
    /// When the request of the run is delivered, if it is deferred: the run does not exist yet.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub deliver_at: Option<Timestamp>,
    /// Whether no live engine serves the run's version. Such a run cannot continue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stranded: bool,
    /// Whether the run has entered all gates and waits for a worker.
    #[serde(skip)]
    pub ready: bool,
    /// The workers that the run waits for, if the engine that answers serves the run's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<Workers>,
}

/// One wait of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Awaited {
    /// The step that waits; none if the run waits for the end of another run before it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The kind of the wait: `time`, `retry`, `event`, `signal`, `child` or `run`.
    #[serde(rename = "for")]
    pub kind: &'static str,
    /// The name of the event or the signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The child run, or the run that has to end before this one starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The end of the wait: the time that the step waits for, or the timeout.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub until: Option<Timestamp>,
}

impl Awaited {
    fn of(wait: &Wait) -> Self {
        let (kind, name, run) = match &wait.on {
            WaitOn::Time => ("time", None, None),
            WaitOn::Retry => ("retry", None, None),
            WaitOn::Event { name, .. } => ("event", Some(name.clone()), None),
            WaitOn::Signal { name } | WaitOn::Named { name } => {
                ("signal", Some(name.clone()), None)
            }
            WaitOn::Child { run } => ("child", None, Some(*run)),
            WaitOn::Before { run } => ("run", None, Some(*run)),
        };
        let before = matches!(wait.on, WaitOn::Before { .. });
        let step = (!before).then(|| wait.step.clone());
        // If the run waits for another run, `until` is only the time of the next check.
        Self { step, kind, name, run, until: wait.until.filter(|_| !before) }
    }
}

/// A window or buffer that collects events for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Collecting {
    /// The control.
    pub control: &'static str,
    /// The key.
    pub key: String,
    /// Number of events collected so far.
    pub events: u32,
}

/// The workers of one engine that a ready run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Workers {
    /// The kind of workers: `handlers` run code of the program, `calls` make HTTP calls.
    pub kind: &'static str,
    /// Number of busy workers.
    pub busy: usize,
    /// Total number of workers.
    pub of: usize,
    /// The workflows of the workspace that keep workers busy, those with the most workers first.
    pub with: Vec<Busy>,
    /// Number of workers that are busy with runs of other workspaces.
    #[serde(skip_serializing_if = "none")]
    pub elsewhere: usize,
    /// Number of workers that are reserved for workflows with few driven runs.
    pub kept: usize,
    /// Number of ready runs of the same workflow before this one, counted up to 1,000.
    pub ahead: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn none(count: &usize) -> bool {
    *count == 0
}

/// Workers that one workflow keeps busy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Busy {
    /// The workflow.
    pub workflow: String,
    /// Number of driven runs of the workflow; each has one worker.
    pub runs: usize,
}

/// Maximum number of workflows that the sentence names.
const MAX_NAMED: usize = 3;

impl Why {
    /// Creates an explanation without gates and waits.
    fn new(run: RunId, state: &'static str, sentence: String) -> Self {
        Self {
            run,
            state,
            sentence,
            gates: Vec::new(),
            earliest: None,
            expires_at: None,
            waits: Vec::new(),
            fold: None,
            deliver_at: None,
            stranded: false,
            ready: false,
            workers: None,
        }
    }

    /// Adds the workers that a ready run waits for, and names them in the sentence.
    pub fn wait_for(&mut self, workers: Workers, workflow: &str) {
        let Workers { busy, of, with, elsewhere, kept, ahead, .. } = &workers;
        let named =
            with.iter().take(MAX_NAMED).map(|it| format!("{} with `{}`", it.runs, it.workflow));
        let others = (*elsewhere > 0).then(|| format!("{elsewhere} for other workspaces"));
        let named = named.chain(others).collect::<Vec<_>>().join(", ");
        let named = if named.is_empty() { named } else { format!(" ({named})") };
        let ahead = match ahead {
            0 => format!("it is the next ready run of `{workflow}`"),
            &ahead if ahead >= MAX_PLACE => {
                format!("{MAX_PLACE} or more ready runs of `{workflow}` go before it")
            }
            1 => format!("1 ready run of `{workflow}` goes before it"),
            ahead => format!("{ahead} ready runs of `{workflow}` go before it"),
        };
        let kept = if busy < of && *kept > 0 {
            format!(", {kept} are reserved for workflows with few runs")
        } else {
            String::new()
        };
        // If one workflow has nearly all workers, its runs may hang: more workers would not help.
        let most = with.first().filter(|most| most.runs > 1 && most.runs * 5 >= of * 4);
        let advice = most.map_or_else(
            || "raise `workers`, or start another engine".to_owned(),
            |most| {
                let most = &most.workflow;
                format!(
                    "if runs of `{most}` do not end, cancel them and give it a `concurrency` limit \
                     or a shorter time-out; otherwise raise `workers`, or start another engine"
                )
            },
        );
        let rest = self.sentence.find("; ").map_or("", |at| &self.sentence[at..]);
        self.sentence = format!(
            "it is ready and waits for a worker: {busy} of {of} are busy{named}{kept}, and {ahead}; \
             {advice}{rest}"
        );
        self.workers = Some(workers);
    }
}

/// Closing of a gate by a run, as the API returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Closed"))]
pub struct ClosedBy {
    /// When the gate opens again.
    #[serde(serialize_with = "Time::serialize")]
    #[cfg_attr(feature = "schemars", schemars(with = "Time"))]
    pub until: Timestamp,
    /// The run that closed it.
    pub by: RunId,
    /// When the run closed it.
    #[serde(serialize_with = "Time::serialize")]
    #[cfg_attr(feature = "schemars", schemars(with = "Time"))]
    pub at: Timestamp,
}

impl From<&Closed> for ClosedBy {
    fn from(closed: &Closed) -> Self {
        Self { until: closed.until, by: closed.by, at: closed.at }
    }
}

/// One gate that a run has not entered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// The control.
    pub control: &'static str,
    /// The pool that the gate belongs to, if it is no gate of the workflow itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The key.
    pub key: String,
    /// The steps that need the gate; none if the run needs it for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The limit of the gate under the current release, in words.
    pub limit: String,
    /// The numbers of the limit that came from data, with the event that set them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_data: Option<Given>,
    /// The value of the limit, if it is adaptive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveLimit>,
    /// The overrides that apply to the gate, the most specific first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// The run that has closed the gate, and the end of the closing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedBy>,
    /// Whether the gate is full now.
    pub full: bool,
    /// The units of the limit that the run takes, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u32>,
    /// The units that are taken, where it is not one for each run inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Who is inside.
    pub holders: Vec<RunId>,
    /// Holders that were cancelled and whose workers have not stopped yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draining: Vec<RunId>,
    /// Holders whose version no live engine serves, so that they cannot end. Only the first 100
    /// holders of a full gate are examined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stranded: Vec<RunId>,
    /// The position in the queue, from 1; none if the run is not queued at this gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// The turn of the run's value, if the values of `fair` take turns at this gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair: Option<Standing>,
    /// The event that will make room, in words.
    pub frees: String,
    /// The time at which there will be room, if that depends only on time.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub at: Option<Timestamp>,
}

/// Explains a run of this workspace: a live run, an ended run, or a run that a window, a buffer or a
/// deferred request will create.
pub fn explain(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Why> {
    if let Some(run) = draft.run(id.seq)?
        && run.id == id
        && run.ws == *ws
    {
        return live(draft, run);
    }
    if let Some(Row::Ended(ended)) = draft.row(&RowKey::Ended(id.seq))?
        && ended.id == id
        && ended.ws == *ws
    {
        return Ok(Why::new(id, ended.ending.state(), ending(&ended.ending)));
    }
    // If another run has this number, no window or buffer will create a run with it.
    let taken = draft.run(id.seq)?.is_some() || draft.row(&RowKey::Ended(id.seq))?.is_some();
    if !taken && let Some(at) = delivery::of_run(draft, ws, id)? {
        return Ok(deferred(id, at));
    }
    match if taken { None } else { folding(draft, ws, id)? } {
        Some(why) => Ok(why),
        None => Err(Stop::Refused(Refusal::NoRun(id))),
    }
}

fn ending(ending: &Ending) -> String {
    if let Some(by) = ending.deduped_by() {
        return format!("it was cancelled: deduped: run {by} holds its idempotency key");
    }
    match ending {
        Ending::Completed { .. } => "it completed".to_owned(),
        Ending::Failed { error } => format!("it failed: {} ({})", error.message, error.code),
        Ending::Cancelled { reason, by: None } if reason == Ending::EXPIRED => {
            "it was cancelled: expired, as it had not started in time".to_owned()
        }
        Ending::Cancelled { reason, by: None } if reason == Ending::DISPLACED => {
            "it was cancelled: displaced, as a newer run found its queue full".to_owned()
        }
        Ending::Cancelled { reason, by: None } => format!("it was cancelled: {reason}"),
        Ending::Cancelled { reason, by: Some(by) } => {
            format!("it was cancelled: {reason}, and {by} runs in its place")
        }
    }
}

fn live(draft: &Draft, run: &Run) -> Decided<Why> {
    let mut gates = Vec::new();
    // The run has taken its own turns, also those after the gate of a step.
    let ahead = run.plan.iter().skip(run.entered);
    let ahead = ahead.filter(|it| !run.started || it.span != Span::Start || it.is_of_steps());
    for need in ahead {
        gates.push(binding(draft, run, need)?);
    }
    let (state, mut sentence, earliest) = match run.phase {
        Phase::Queued { .. } => {
            let first = gates.first();
            (
                "queued",
                first.map(queue_sentence).unwrap_or_default(),
                first.and_then(|gate| gate.at),
            )
        }
        Phase::Ready => {
            let (name, version) = (&run.workflow, run.version);
            let sentence =
                format!("it is ready and waits for an engine that serves `{name}` v{version}");
            ("queued", sentence, Some(draft.now()))
        }
        Phase::Driven => {
            gates.clear();
            ("running", "a worker runs it".to_owned(), None)
        }
        Phase::Stopping => {
            gates.clear();
            let (state, end) = match draft.row(&RowKey::Ended(run.id.seq))? {
                Some(Row::Ended(ended)) => (ended.ending.state(), ending(&ended.ending)),
                _ => ("cancelled", "it was cancelled".to_owned()),
            };
            let sentence = format!("{end}; its worker has not confirmed the stop yet");
            (state, sentence, None)
        }
        Phase::Waiting => {
            gates.clear();
            ("waiting", waiting(run), run.due())
        }
        Phase::Paused => {
            gates.clear();
            let by_hand = "it was paused by hand and goes on when it is resumed";
            let reason = run.pause_reason.as_ref().map(|reason| format!("it was {reason}"));
            ("paused", reason.unwrap_or_else(|| by_hand.to_owned()), None)
        }
    };
    for id in in_the_way(run, &gates) {
        if let Some(other) = stranded_run(draft, id)? {
            sentence = format!("{sentence}; {}", ways_out(&id.to_string(), other));
        }
    }
    sentence.push_str(&step_in_pools(run, &gates));
    let stranded = is_stranded(draft, run)?;
    if stranded {
        sentence = format!("{sentence}; {}", ways_out("it", run));
    }
    if run.takeovers > 0 {
        let times = if run.takeovers == 1 { "once" } else { &format!("{} times", run.takeovers) };
        sentence = format!("{sentence}; it was taken over {times} from an engine that died");
    }
    let expires_at = run.expiry();
    if let Some(at) = expires_at {
        sentence = format!("{sentence}; it expires at {} unless it starts before", at.rfc3339());
    }
    sentence.push_str(&listeners(run));
    let waits = run.waits.iter().filter(|_| run.phase == Phase::Waiting);
    let (waits, ready) = (waits.map(Awaited::of).collect(), run.phase == Phase::Ready);
    let why = Why::new(run.id, state, sentence);
    Ok(Why { gates, earliest, expires_at, waits, stranded, ready, ..why })
}

/// Says for which step of the run it is queued, and what pools the step still has to pass.
fn step_in_pools(run: &Run, gates: &[Binding]) -> String {
    let Some(step) = run.in_pools.first().filter(|_| !gates.is_empty()) else {
        return String::new();
    };
    let mut pools: Vec<String> = Vec::new();
    for gate in gates.iter().filter(|gate| gate.steps.contains(step)) {
        let pool = gate.pool.as_deref().unwrap_or_default();
        let named = format!("{} of pool `{pool}`", gate.control);
        if !pools.contains(&named) {
            pools.push(named);
        }
    }
    if pools.is_empty() {
        return String::new();
    }
    format!("; its step `{step}` waits for {}", pools.join(" and "))
}

/// Whether a run is not driven and no live engine serves its version (spec stranded).
fn is_stranded(draft: &Draft, run: &Run) -> Decided<bool> {
    let driven = matches!(run.phase, Phase::Driven | Phase::Stopping);
    Ok(!driven && !served(draft)?.contains(&run.lane))
}

/// Returns the run if it is live and stranded.
fn stranded_run(draft: &Draft, id: RunId) -> Decided<Option<&Run>> {
    let Some(run) = draft.run(id.seq)? else { return Ok(None) };
    Ok(is_stranded(draft, run)?.then_some(run))
}

/// Returns the runs that a run waits for: a stranded holder of the gate at which it is queued, its
/// children, and the run that must end before it starts.
fn in_the_way(run: &Run, gates: &[Binding]) -> Vec<RunId> {
    let first = gates.first().filter(|_| matches!(run.phase, Phase::Queued { .. }));
    let holder = first.and_then(|gate| gate.stranded.first()).copied();
    let awaited = run.waits.iter().filter_map(|wait| match &wait.on {
        WaitOn::Child { run } | WaitOn::Before { run } => Some(*run),
        WaitOn::Time
        | WaitOn::Retry
        | WaitOn::Event { .. }
        | WaitOn::Named { .. }
        | WaitOn::Signal { .. } => None,
    });
    holder.into_iter().chain(awaited).collect()
}

/// Returns advice for a stranded run (spec stranded).
fn ways_out(subject: &str, run: &Run) -> String {
    let (name, version) = (&run.workflow, run.version);
    let newer = if run.started {
        "let newer code continue it (`also_serves`)"
    } else {
        "let newer code continue it (`also_serves`), release a version whose handoff is `supersede`"
    };
    format!(
        "{subject} is stranded, as no live engine serves `{name}` v{version}: start one that \
         does, {newer}, or cancel it"
    )
}

#[expect(clippy::too_many_lines, reason = "one entry per field of the answer")]
fn binding(draft: &Draft, run: &Run, need: &PlannedGate) -> Decided<Binding> {
    let (key, costs) = (&need.gate, &need.costs);
    let By { control, key: value, pool, .. } = By::gate(key);
    let gate = draft.gate(key)?;
    let own = gate.map(|gate| gate.state.numbers()).unwrap_or_default();
    let (limit, from_data, adaptive, overrides) = match key.scope() {
        Some(scope) => {
            let catalog = draft.catalog(&scope.ws)?;
            let from_data = own.given.filter(|_| catalog.reads_limit(&scope)).cloned();
            let adaptive = AdaptiveLimit::of(&catalog, &scope, own);
            let limit = catalog.limit(&scope, own);
            (limit, from_data, adaptive, catalog.overrides().of(&scope))
        }
        None => (Limit::Open, None, None, Vec::new()),
    };
    let closed = limit == Limit::Closed;
    let mut binding = Binding {
        control,
        pool,
        key: value,
        steps: need.steps.keys().cloned().collect(),
        limit: words(&limit),
        from_data,
        adaptive,
        overrides,
        closed: None,
        full: closed,
        cost: None,
        used: None,
        holders: Vec::new(),
        draining: Vec::new(),
        stranded: Vec::new(),
        place: None,
        fair: None,
        frees: "nothing: there is room".to_owned(),
        at: None,
    };
    if closed {
        (binding.at, binding.frees) = end_of_pause(&binding.overrides);
    }
    let Some(gate) = gate else { return Ok(binding) };
    let mut ahead = 0;
    if matches!(run.phase, Phase::Queued { gate: at, .. } if at == gate.id) {
        let queue = draft.queue(gate, MAX_PLACE)?;
        let position = queue.iter().position(|(_, seq)| *seq == run.id.seq);
        binding.place = position.map(|at| at + 1);
        ahead = position.unwrap_or(queue.len());
        if let Some(standing) = share::standing(draft, gate, run, MAX_PLACE)? {
            (binding.place, ahead) = (None, usize::try_from(standing.ahead).unwrap_or(usize::MAX));
            binding.fair = Some(standing);
        }
    }
    match &gate.state {
        GateState::Slots(slots) => {
            binding.holders = slots.holders.iter().map(|hold| hold.run).collect();
            let mut undone = None;
            for hold in slots.holders.iter().filter(|hold| hold.draining) {
                match undoing(draft, hold.run)? {
                    Some(words) => undone = Some(words),
                    None => binding.draining.push(hold.run),
                }
            }
            let full = matches!(limit, Limit::Slots(n) if !slots.fits(costs.one(), n));
            binding.full = closed || full;
            binding.cost = Some(costs.one()).filter(|cost| *cost > 1);
            binding.used = Some(slots.used()).filter(|used| *used != slots.holders.len() as u64);
            if !closed {
                binding.frees = undone.unwrap_or_else(|| frees(&binding));
            }
            if let Limit::Slots(limit) = limit
                && costs.one() > limit
                && binding.full
            {
                let ends = "the end of all of its holders";
                binding.frees = format!("{ends}: it takes more than the limit and enters alone");
            }
            for holder in binding.holders.iter().take(MAX_HOLDERS).filter(|_| binding.full) {
                binding.stranded.extend(stranded_run(draft, *holder)?.map(|run| run.id));
            }
        }
        GateState::Turns(turns) => {
            if let Limit::Rates(rates) = &limit {
                let ahead = Ahead { through: &turns.pending, queued: ahead as u64 };
                let turn = meter::all_conform(&turns.meters, rates, ahead, costs, draft.now());
                await_turn(&mut binding, turn);
            }
        }
        GateState::Meter(_) | GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => {}
    }
    if let Some(closed) = gate.state.closed(draft.now()) {
        await_opening(&mut binding, closed);
    }
    Ok(binding)
}

/// Says when a gate that a run has closed opens again. An override that closes it, too, may last
/// longer.
fn await_opening(binding: &mut Binding, closed: &Closed) {
    let Closed { until, .. } = *closed;
    binding.closed = Some(closed.into());
    if binding.limit != words(&Limit::Closed) {
        binding.frees = format!("its opening at {}", until.rfc3339());
        binding.at = Some(binding.at.map_or(until, |at| at.max(until)));
    }
    binding.full = true;
}

/// Returns when the pause of a closed gate ends, and what frees the gate, in words.
fn end_of_pause(overrides: &[Override]) -> (Option<Timestamp>, String) {
    let pause = overrides.iter().find(|over| over.fields.closing() == Some(true));
    let end = pause.and_then(Override::next_end);
    let closed = pause.is_some_and(|over| over.fields.closed_until.is_some());
    let what = if closed { "its opening" } else { "the end of the pause" };
    let words = match end {
        Some(at) => format!("{what} at {}", at.rfc3339()),
        None => what.to_owned(),
    };
    (end, words)
}

/// Says when a run's turn at a throttle is due.
fn await_turn(binding: &mut Binding, turn: Result<(), Option<Timestamp>>) {
    binding.full = turn.is_err();
    binding.at = turn.err().flatten();
    match binding.at {
        Some(at) => binding.frees = format!("its turn, at {}", at.rfc3339()),
        None if binding.full => {
            "the start of a run that already has a turn".clone_into(&mut binding.frees);
        }
        None => {}
    }
}

/// Says what frees a gate that a compensating run has taken over; none if the run does not
/// compensate.
fn undoing(draft: &Draft, id: RunId) -> Decided<Option<String>> {
    let Some(run) = draft.run(id.seq)? else { return Ok(None) };
    let Purpose::Compensates(old) = run.purpose else { return Ok(None) };
    let latest = run
        .gives_up_at
        .map(|at| format!(", or {} at the latest", at.rfc3339()))
        .unwrap_or_default();
    Ok(Some(format!("the end of {id}, which compensates {old}{latest}")))
}

pub(crate) fn words(limit: &Limit) -> String {
    match limit {
        Limit::Slots(n) => format!("{n} at once"),
        Limit::Rates(rates) => {
            let each = rates.iter().map(|rate| {
                format!("{} in {} ms, {} at once", rate.limit, rate.per_ms, rate.burst)
            });
            each.collect::<Vec<_>>().join(" and ")
        }
        Limit::Open => "open: the current release has no such control".to_owned(),
        Limit::Closed => "closed".to_owned(),
    }
}

fn frees(binding: &Binding) -> String {
    match (binding.draining.first(), binding.holders.first()) {
        (Some(run), _) => {
            format!("the worker of {run} confirming its stop, or the end of its lease")
        }
        (None, Some(run)) if binding.holders.len() == 1 => format!("the end of {run}"),
        (None, Some(_)) => format!("the end of one of its {} holders", binding.holders.len()),
        (None, None) => "nothing: there is room".to_owned(),
    }
}

fn queue_sentence(gate: &Binding) -> String {
    let Binding { control, limit, frees, .. } = gate;
    let (whom, place) = (whom(gate.pool.as_deref(), &gate.key), place_in_queue(gate));
    if let Some(pause) = pause_of_starts(gate) {
        let pause = pause.words();
        return format!("it waits to start: {whom} is {pause}; {place}; freed by {frees}");
    }
    let set = gate.from_data.as_ref().map(|given| format!(", set by event {}", given.event_id));
    let adaptive = gate.adaptive.as_ref();
    let adaptive = adaptive.map(|it| format!(", adaptive from {} to {}", it.min, it.max));
    let limit = format!("{limit}{}", set.or(adaptive).unwrap_or_default());
    let limit =
        gate.overrides.iter().fold(limit, |words, over| format!("{words}, {}", over.words()));
    let closed = gate.closed.as_ref();
    let closed = closed
        .map(|closed| format!(", closed by {} until {}", closed.by, closed.until.rfc3339()))
        .unwrap_or_default();
    let units = match (gate.cost, gate.used) {
        (None, None) => String::new(),
        (cost, used) => {
            let (cost, used) = (cost.unwrap_or(1), used.unwrap_or(gate.holders.len() as u64));
            format!(", {used} taken, it takes {cost}")
        }
    };
    format!("it waits for {control} of {whom} ({limit}{closed}{units}), {place}; freed by {frees}")
}

/// Names the owner of a gate's limit: the pool and the key.
fn whom(pool: Option<&str>, key: &str) -> String {
    let is = |special: Key| key == special.to_string();
    match pool {
        Some(pool) if is(Key::Whole) => format!("pool `{pool}`"),
        Some(pool) if is(Key::Missing) => format!("pool `{pool}`, runs without the key"),
        Some(pool) => format!("pool `{pool}`, key {key}"),
        None if is(Key::Whole) => "the whole workflow".to_owned(),
        None if is(Key::Missing) => "runs without the key".to_owned(),
        None => key.to_owned(),
    }
}

/// Returns the override that pauses the first starts of the run, if the run waits for its end.
fn pause_of_starts(gate: &Binding) -> Option<&Override> {
    let mut overrides = gate.overrides.iter().filter(|_| gate.control == Class::Pause.control());
    overrides.find(|over| over.fields.closing() == Some(true))
}

fn place_in_queue(gate: &Binding) -> String {
    match (&gate.fair, gate.place) {
        (Some(standing), _) => standing.words(MAX_PLACE),
        (None, Some(place)) => format!("position {place} in the queue"),
        (None, None) => format!("beyond position {MAX_PLACE} in the queue"),
    }
}

/// Explains the run of a deferred request.
fn deferred(id: RunId, at: Timestamp) -> Why {
    let text = at.rfc3339();
    let sentence = format!("its request is deferred: it is delivered at {text}, and decided then");
    Why { earliest: Some(at), deliver_at: Some(at), ..Why::new(id, "queued", sentence) }
}

/// Explains a run that a window or buffer will create.
fn folding(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Option<Why>> {
    let gate = fold::of_run(draft, ws, id)?;
    Ok(gate.and_then(|gate| match &gate.state {
        GateState::Fold(fold) => Some(folded(gate, fold, id)),
        GateState::Slots(_)
        | GateState::Meter(_)
        | GateState::Turns(_)
        | GateState::Claim(_)
        | GateState::Share(_) => None,
    }))
}

fn folded(gate: &Gate, fold: &Fold, id: RunId) -> Why {
    let By { control, key, .. } = By::gate(&gate.key);
    let (count, at) = (fold.count, fold.deadline);
    let (frees, at) = if fold.paused {
        ("being resumed".to_owned(), None)
    } else if fold.held {
        ("the end of the run that blocks its flush".to_owned(), None)
    } else {
        (format!("the deadline at {}", at.rfc3339()), Some(at))
    };
    let state = if fold.paused { "paused" } else { "queued" };
    let whom = whom(None, &key);
    let sentence = format!("{control} of {whom} holds {count} events for it; it waits for {frees}");
    let fold = Some(Collecting { control, key, events: count });
    Why { earliest: at, fold, ..Why::new(id, state, sentence) }
}
