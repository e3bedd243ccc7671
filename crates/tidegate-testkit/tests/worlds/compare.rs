//! Executes the same operations on the real core (`World`) and on the reference, and compares them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tidegate_core::{
    event::Outcome,
    flow::{
        close::{GateToClose, NewClose},
        step_pool::{PoolAnswer, PoolAsk, key_of},
    },
    id::{RunId, Seq},
    json::Payload,
    key::{Key, Scalar},
    row::{Class, Gate, GateKey, GateState, Phase, Row, Run, Source, Step, StepKind},
    run::record::{NewWait, Recorded, Then, Until},
    time::Timestamp,
};
use tidegate_store::{ManualClock, MemoryStore};
use tidegate_testkit::{
    reference::{Ask, Entry, Ordinal, Place, Reference, Time, Told, Wanted},
    worker::for_event_with,
    world::{World, event, request, step},
};

use super::{Case, Field, MAX_CLOSE_MS, Op, overrides::Goals};

/// Runs a case on both sides. The error is the first difference.
pub(crate) fn check(case: &Case) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut twin = Twin::new();
        twin.goals = Goals::of(case);
        for pool in pools(case.fair) {
            twin.world.put_pool(pool.clone()).await;
            twin.reference.declare(&pool);
        }
        for definition in &case.definitions {
            twin.release(definition).await;
        }
        twin.later = case.later.iter().rev().cloned().collect();
        let timed = |def: &Value| {
            let timed = ["debounce", "batch", "throttle", "startWithinMs"];
            timed.iter().any(|it| def.to_string().contains(it))
        };
        // Rows that are due at the same time may be processed in any order. So if the case has
        // controls with due times, there is time between operations.
        twin.apart = Time::from(case.definitions.iter().any(timed));
        for (n, op) in case.ops.iter().enumerate() {
            let at = |what: String| format!("after operation {n}, {op:?}: {what}");
            twin.tick(twin.apart).await;
            twin.apply(n, op).await.map_err(at)?;
            twin.compare().await.map_err(at)?;
        }
        twin.world.check_holds().await;
        Ok(())
    })
}

/// Both sides, and the mapping from runs of the reference to runs of the world.
pub(super) struct Twin {
    pub(super) world: World,
    pub(super) reference: Reference,
    /// The targets of overrides.
    pub(super) goals: Goals,
    ids: BTreeMap<Ordinal, RunId>,
    leased: BTreeMap<Ordinal, Run>,
    later: Vec<Value>,
    /// The time between two operations.
    apart: Time,
}

pub(super) type Same = Result<(), String>;

impl Twin {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_ms(1_800_000_000_000)));
        let world = World::new(Arc::new(MemoryStore::new(clock.clone())), clock);
        let (ids, leased) = (BTreeMap::new(), BTreeMap::new());
        let (reference, goals, later) = (Reference::default(), Goals::default(), Vec::new());
        Self { world, reference, goals, ids, leased, later, apart: 0 }
    }

    async fn release(&mut self, definition: &Value) {
        self.world.define(definition.clone()).await;
        self.reference.release(definition);
    }

    #[expect(clippy::too_many_lines, reason = "a few lines for each kind of operation")]
    async fn apply(&mut self, n: usize, op: &Op) -> Same {
        let (driven, stopping) = self.reference.driven();
        let pick = |from: &[Ordinal], at: usize| from.get(at % from.len().max(1)).copied();
        match op {
            Op::Post { name, a, b } => self.post(name, data(n, *a, *b)).await?,
            Op::Late { ms, name, a } => {
                self.fall_behind(micros(*ms)).await;
                self.post(name, data(n, *a, *a)).await?;
                // A fold that the event has opened is not due with one that the sweep opens.
                self.pass(self.apart);
            }
            Op::Defer { ms, name, a } => {
                let (data, delay) = (data(n, *a, *a), Duration::from_millis(*ms));
                self.world.post_event(event(name, &data).delay(delay)).await;
                self.reference.defer(name, &data, micros(*ms));
            }
            Op::Call { action, session, a } => self.call(n, action, *session, *a).await?,
            Op::Lease(limit) if self.apart == 0 => self.lease(*limit).await?,
            Op::Lease(limit) => {
                for _ in 0..*limit {
                    self.tick(self.apart).await;
                    self.lease(1).await?;
                }
            }
            Op::Complete(at) => {
                if let Some(run) = pick(&driven, *at) {
                    self.world.complete(&self.leased[&run]).await;
                    self.reference.end(run, "completed");
                }
            }
            Op::Fail(at) => {
                if let Some(run) = pick(&driven, *at) {
                    self.world.fail(&self.leased[&run]).await;
                    self.reference.end(run, "failed");
                }
            }
            Op::Sleep(at, ms) => {
                if let Some(run) = pick(&driven, *at) {
                    self.world.sleep(&self.leased[&run], &format!("nap {n}"), *ms).await;
                    self.reference.sleep(run, micros(*ms));
                }
            }
            Op::Succeed(at) => {
                if let Some(run) = pick(&driven, *at) {
                    let steps = vec![step(&format!("step {n}"), &json!(n))];
                    let recorded =
                        self.world.report(&self.leased[&run], steps, Then::Continue).await;
                    same("the answer to a step", &recorded, &Ok(Recorded::GoOn))?;
                    self.reference.succeed(run);
                }
            }
            Op::Overload(at, ms) => {
                if let Some(run) = pick(&driven, *at) {
                    let leased = &self.leased[&run];
                    self.world.overload(leased, &format!("call {n}"), None, *ms).await;
                    self.reference.overload(run, micros(*ms));
                }
            }
            Op::Wait { at, name, a, ms } => {
                if let Some(run) = pick(&driven, *at) {
                    let like = data(0, a.unwrap_or(Field::Missing), Field::Missing);
                    let step = format!("wait {n}");
                    let fields = like.get("a").map(|it| ("a", it.clone()));
                    let wait = for_event_with(&step, name, fields.as_slice());
                    let wait = NewWait { until: ms.map(Until::In), ..wait };
                    self.world.suspend(&self.leased[&run], vec![wait]).await;
                    let event = Wanted::new(name, "a", &like);
                    self.reference.wait(run, &step, event, ms.map(micros));
                }
            }
            Op::CloseGate { at, gate, ms } => {
                if let Some(run) = pick(&driven, *at) {
                    let what = GateToClose::parse(gate).expect("a gate");
                    let (until, max_ms) = (Until::In(*ms), MAX_CLOSE_MS);
                    let close = NewClose { gate: what, until, max_ms };
                    self.world.close_gate(&self.leased[&run], close).await;
                    self.reference.close_gate(run, gate, micros(*ms.min(&MAX_CLOSE_MS)));
                }
            }
            Op::Enter { at, key, value, cost, parks } => {
                if let Some(run) = pick(&driven, *at) {
                    self.enter(run, (*key, *value), *cost, *parks).await?;
                }
            }
            Op::Override { goal, key, change, ends } => {
                self.change_override((*goal, *key), *change, *ends).await?;
            }
            Op::Leave(at) => {
                if let Some(run) = pick(&driven, *at).filter(|run| self.reference.has_step(*run)) {
                    self.world.leave(&self.leased[&run], "ask").await;
                    self.reference.leave_pool(run);
                }
            }
            Op::Cancel(at) => {
                // A run whose window or buffer is still open is not cancelled here: that has its
                // own tests.
                let runs = self.ids.keys().copied().filter(|run| !self.reference.is_folding(*run));
                let runs: Vec<Ordinal> = runs.collect();
                if let Some(run) = pick(&runs, *at) {
                    let world = self.world.cancel(self.ids[&run]).await.is_ok();
                    same("whether the run was cancelled", &world, &self.reference.cancel(run))?;
                }
            }
            Op::Stopped(at) => {
                if let Some(run) = pick(&stopping, *at) {
                    self.world.stopped(&self.leased[&run]).await;
                    self.reference.stopped(run);
                }
            }
            Op::Lose => {
                self.world.lose(self.world.engine).await;
                self.reference.lose(self.world.engine);
                self.world.engine += 1;
            }
            Op::Tick(ms) => self.tick(micros(*ms)).await,
            Op::Release => {
                if let Some(definition) = self.later.pop() {
                    self.release(&definition).await;
                }
            }
        }
        self.world.sweep().await;
        self.reference.sweep();
        Ok(())
    }

    /// Lets a step of a driven run ask for the pool `px`.
    async fn enter(
        &mut self,
        run: Ordinal,
        (key, value): (Field, Field),
        cost: u32,
        parks: bool,
    ) -> Same {
        if self.reference.has_step(run) {
            return Ok(());
        }
        let data = data(0, key, value);
        let (key, value) = (data.get("a"), data.get("b"));
        let (pool, fair_by) = ("px".to_owned(), value.and_then(key_of));
        let asks = [PoolAsk { pool, key: key.and_then(key_of), cost, fair_by }];
        let ask = Ask { pool: "px", key, cost: cost.into(), value };
        let leased = self.leased[&run].clone();
        let answer = match self.world.enter(&leased, "ask", &asks).await {
            PoolAnswer::Entered => Entry::Entered,
            PoolAnswer::Waits => Entry::Waits,
            PoolAnswer::Refused(_) => Entry::Refused,
        };
        let expected = self.reference.enter(run, &ask);
        same("the answer to a step", &answer, &expected)?;
        if answer == Entry::Waits && parks {
            self.world.park(&leased, "ask", &asks).await;
            self.reference.park(run, &ask);
        }
        Ok(())
    }

    async fn post(&mut self, name: &str, data: Value) -> Same {
        let posted = self.world.post(name, data.clone()).await;
        let answer = self.reference.post(name, &data);
        self.answered(&posted.runs, &answer)
    }

    async fn call(&mut self, n: usize, action: &str, session: Option<&str>, a: Field) -> Same {
        let input = data(n, a, a);
        let outcome = self.world.dispatch(request("f", action, session, None, &input)).await;
        let data = json!({"session": session, "user": null, "input": input});
        let answer = self.reference.post(&format!("f/{action}"), &data);
        self.answered(&[outcome], &answer)
    }

    /// Checks that both sides give the same outcomes for the same workflows, and maps new runs.
    fn answered(&mut self, world: &[Outcome], answer: &[(String, Told)]) -> Same {
        let words = world.iter().map(|it| (it.workflow.as_str(), it.verdict.outcome()));
        let told_words = answer.iter().map(|(name, answer)| (name.as_str(), answer.outcome));
        same("the outcomes", &words.collect::<Vec<_>>(), &told_words.collect::<Vec<_>>())?;
        for (outcome, (_, answer)) in world.iter().zip(answer) {
            match (outcome.verdict.run(), answer.run) {
                (Some(id), Some(run)) => {
                    let known = *self.ids.entry(run).or_insert(id);
                    same(&format!("the id of run {run}"), &id, &known)?;
                }
                (world, answer) => {
                    same("whether the verdict has a run", &world.is_some(), &answer.is_some())?;
                }
            }
        }
        Ok(())
    }

    async fn lease(&mut self, limit: u32) -> Same {
        let runs = self.world.lease(limit).await;
        let leased = self.reference.lease(self.world.engine, limit as usize);
        self.learn(&runs.iter().map(|run| run.id).collect::<Vec<_>>(), &leased);
        let names: Vec<_> = runs.iter().map(|run| self.name(run.id)).collect();
        let expected: Vec<_> = leased.iter().map(|&run| Some(run)).collect();
        same("the leased runs", &names, &expected)?;
        self.leased.extend(leased.into_iter().zip(runs));
        Ok(())
    }

    /// Maps runs by their positions in two lists. For runs that are in no verdict, such as the run
    /// of a buffer that a window opened.
    fn learn(&mut self, ids: &[RunId], runs: &[Ordinal]) {
        for (id, run) in ids.iter().zip(runs) {
            let known = self.name(*id).is_some();
            if !known {
                self.ids.entry(*run).or_insert(*id);
            }
        }
    }

    fn name(&self, id: RunId) -> Option<Ordinal> {
        self.ids.iter().find(|(_, known)| **known == id).map(|(run, _)| *run)
    }

    /// Advances the time without a sweep.
    fn pass(&mut self, time: Time) {
        let now = self.world.now().micros() + i64::try_from(time).expect("a short time");
        self.world.clock.set(Timestamp::from_micros(now));
        self.reference.pass(time);
    }

    /// Advances the time. If the last row that becomes due in it is a fold, that fold is not swept.
    ///
    /// All other due rows are swept in time: the order in which several overdue rows are swept is
    /// not specified, and runs could overtake a due turn of a throttle that is not swept.
    async fn fall_behind(&mut self, time: Time) {
        let (now, mut ahead, mut last) = (self.reference.now(), self.reference.clone(), None);
        let soon = |due: &Time, from: Time| from < *due && *due <= now + time;
        while let Some(due) = ahead.next_due().filter(|due| soon(due, ahead.now())) {
            last = ahead.next_flush().filter(|flush| *flush == due);
            ahead.pass(due - ahead.now());
            ahead.sweep();
        }
        self.tick(last.map_or(time, |last| last - now - 1)).await;
        self.pass(now + time - self.reference.now());
    }

    /// Advances the time in steps from one due time to the next, with a sweep at each.
    async fn tick(&mut self, time: Time) {
        let end = self.reference.now() + time;
        loop {
            let now = self.reference.now();
            let due = self.reference.next_due().filter(|due| now < *due && *due < end);
            self.pass(due.unwrap_or(end) - now);
            self.world.sweep().await;
            self.reference.sweep();
            if due.is_none() {
                return;
            }
        }
    }

    // ------------------------------------------------------------------ comparison

    async fn compare(&mut self) -> Same {
        let rows = self.world.dump().await;
        let seen = Seen::of(&rows);
        self.learn_new(&seen);
        let ordinals = || self.ids.iter();
        let states = self.reference.states();
        let state =
            |(run, id): (&Ordinal, &RunId)| (*run, seen.states.get(id).copied().unwrap_or("none"));
        let world: Vec<_> = ordinals().map(state).collect();
        let expected: Vec<_> = ordinals().map(|(run, _)| (*run, states[*run])).collect();
        same("the states of runs", &world, &expected)?;
        let names = |ids: &[RunId]| ids.iter().map(|id| self.name(*id)).collect::<Vec<_>>();
        let some = |runs: Vec<Ordinal>| runs.into_iter().map(Some).collect::<Vec<_>>();
        same("the ready runs", &names(&seen.ready), &some(self.reference.ready()))?;
        let world: BTreeMap<_, _> =
            seen.holders.iter().map(|(at, ids)| (at.clone(), names(ids))).collect();
        let held = self.reference.holders().into_iter();
        let world =
            world.into_iter().map(|(at, ids)| (at, ids.into_iter().collect::<BTreeSet<_>>()));
        let held = held.map(|(at, runs)| (at, some(runs).into_iter().collect::<BTreeSet<_>>()));
        same("the holders of gates", &world.collect::<BTreeMap<_, _>>(), &held.collect())?;
        // Versions that coexist have separate queues, which the reference does not have: so the
        // order of these queues is not compared.
        let sorted = |(at, mut runs): (Place, Vec<Option<Ordinal>>)| {
            if at.control == "handoff" {
                runs.sort();
            }
            // A run whose start is paused waits in the queue of the pause or of its throttle.
            let apart = at.control == "pause" || at.control.starts_with("throttle");
            let kept = |run| !self.reference.is_held_back(run);
            runs.retain(|run| !apart || run.is_none_or(kept));
            (at, runs)
        };
        let world = seen.lines.iter().map(|(at, ids)| sorted((at.clone(), names(ids))));
        let lines = self.reference.lines().into_iter().map(|(at, runs)| sorted((at, some(runs))));
        let some = |(_, runs): &(Place, Vec<_>)| !runs.is_empty();
        let world: BTreeMap<_, _> = world.filter(some).collect();
        same("the queues", &world, &lines.filter(some).collect())?;
        same("the adaptive limits", &seen.adapted, &self.reference.adapted())?;
        let now = self.world.now().micros();
        let left = |until: &Timestamp| Time::from(until.micros() - now);
        let closed = seen.closed.iter().map(|(at, until)| (at.clone(), left(until)));
        let closed = closed.filter(|(_, left)| *left > 0).collect();
        same("the closed gates", &closed, &self.reference.closed())?;
        let carried = self.reference.carried();
        let versions = self.reference.versions();
        for (run, id) in &self.ids {
            let answers = seen.answers.get(&id.seq).cloned().unwrap_or_default();
            let expected = self.reference.answers(*run);
            same(&format!("the answers to waits of run {run}"), &answers, &expected)?;
            if let Some((version, events)) = seen.carried.get(id) {
                same(&format!("the events of run {run}"), events, &carried[*run])?;
                let inbox = seen.inboxes.get(&id.seq).cloned().unwrap_or_default();
                same(&format!("the inbox of run {run}"), &inbox, &self.reference.inbox(*run))?;
                // The version of a queued run is not compared: if a newer version takes the run
                // over, its version changes when it is admitted.
                if let Some(version) = version {
                    let version = i128::from(*version);
                    same(&format!("the version of run {run}"), &version, &versions[*run])?;
                }
            }
        }
        Ok(())
    }

    /// Maps new runs that folds have started: both sides list them in the order of their ranks.
    fn learn_new(&mut self, seen: &Seen) {
        let unknown: Vec<RunId> =
            seen.by_rank.iter().filter(|id| self.name(**id).is_none()).copied().collect();
        let states = self.reference.states();
        // A deferred run that was replaced in the sweep that delivered it is seen by neither side.
        let unseen = ["none", "completed", "failed", "cancelled"];
        let there = |run: &Ordinal| !unseen.contains(&states[*run]) && !self.ids.contains_key(run);
        let mut runs: Vec<Ordinal> = (0..states.len()).filter(there).collect();
        runs.sort_by_key(|run| self.reference.rank(*run));
        self.learn(&unknown, &runs);
    }
}

/// The state of the world, read from a dump.
#[derive(Default)]
struct Seen {
    states: BTreeMap<RunId, &'static str>,
    by_rank: Vec<RunId>,
    ready: Vec<RunId>,
    holders: BTreeMap<Place, Vec<RunId>>,
    /// The values of adaptive limits, with their successes.
    adapted: BTreeMap<Place, (i128, i128)>,
    /// The gates that runs have closed, and until when.
    closed: BTreeMap<Place, Timestamp>,
    /// The events that ended waits, by step, in the order in which they were recorded.
    answers: BTreeMap<Seq, Vec<(String, Value)>>,
    /// The events that no wait has consumed yet.
    inboxes: BTreeMap<Seq, Vec<Value>>,
    lines: BTreeMap<Place, Vec<RunId>>,
    carried: BTreeMap<RunId, (Option<u32>, Vec<Value>)>,
}

impl Seen {
    #[expect(clippy::wildcard_enum_match_arm, reason = "other rows are not compared")]
    fn of(rows: &[Row]) -> Self {
        let mut seen = Self::default();
        let mut runs: Vec<&Run> = Vec::new();
        let mut steps: Vec<&Step> = Vec::new();
        for row in rows {
            match row {
                Row::Run(run) => runs.push(run),
                Row::Ended(ended) => drop(seen.states.insert(ended.id, ended.ending.state())),
                Row::Gate(gate) => seen.gate(gate),
                Row::Step(step) if step.kind == StepKind::Event => steps.push(step),
                Row::Signal(event) => {
                    seen.inboxes.entry(event.run).or_default().push(parsed(&event.data));
                }
                _ => {}
            }
        }
        steps.sort_by_key(|step| step.seq);
        for step in steps {
            let answer = parsed(step.result.as_ref().expect("a wait does not fail"));
            seen.answers.entry(step.run).or_default().push((step.id.clone(), answer));
        }
        seen.holders.retain(|_, holders| !holders.is_empty());
        runs.sort_by_key(|run| run.rank);
        for run in &runs {
            let state = match run.phase {
                Phase::Queued { .. } | Phase::Ready => "queued",
                Phase::Driven => "running",
                Phase::Waiting => "waiting",
                Phase::Paused => "paused",
                Phase::Stopping => "cancelled",
            };
            seen.states.insert(run.id, state);
            seen.by_rank.push(run.id);
            if run.phase == Phase::Ready {
                seen.ready.push(run.id);
            }
            if run.phase != Phase::Stopping {
                let waits = matches!(run.phase, Phase::Queued { .. });
                let version = (!waits).then_some(run.version);
                seen.carried.insert(run.id, (version, carried(rows, run)));
            }
        }
        let mut waiting: Vec<_> = runs
            .iter()
            .filter_map(|run| {
                let Phase::Queued { place, .. } = run.phase else { return None };
                Some((place, *run))
            })
            .collect();
        waiting.sort_by_key(|(place, _)| *place);
        for (_, run) in waiting {
            let here = place(&run.plan[run.entered].gate);
            seen.lines.entry(here).or_default().push(run.id);
        }
        seen
    }

    fn gate(&mut self, gate: &Gate) {
        let at = || place(&gate.key);
        let closed = match &gate.state {
            GateState::Slots(slots) => {
                let here = self.holders.entry(at()).or_default();
                here.extend(slots.holders.iter().map(|hold| hold.run));
                let adapted = slots.adapted.map(|it| (it.limit.into(), it.successes.into()));
                self.adapted.extend(adapted.map(|adapted| (at(), adapted)));
                slots.closed
            }
            GateState::Turns(turns) => turns.closed,
            GateState::Meter(_)
            | GateState::Fold(_)
            | GateState::Claim(_)
            | GateState::Share(_) => None,
        };
        self.closed.extend(closed.map(|closed| (at(), closed.until)));
    }
}

fn parsed(data: &Payload) -> Value {
    serde_json::from_str(data.as_str()).expect("JSON")
}

/// Returns the data of the events of a run.
fn carried(rows: &[Row], run: &Run) -> Vec<Value> {
    let data = |seq| {
        let event = rows.iter().find_map(|row| {
            let Row::Event(event) = row else { return None };
            (event.id.seq == seq).then_some(event)
        });
        let event = event.expect("the event of a run exists");
        let mut data = parsed(&event.data);
        if let Some(request) = data.as_object_mut().filter(|data| data.contains_key("session")) {
            request.remove("metadata");
        }
        data
    };
    match run.source {
        Source::Event(id) => vec![data(id.seq)],
        Source::Batch(_) => {
            let items = rows.iter().filter_map(|row| {
                let Row::Item(item) = row else { return None };
                (item.run == run.id.seq).then(|| data(item.event.seq))
            });
            items.collect()
        }
    }
}

/// The pools that definitions use.
fn pools(fair: bool) -> [Value; 2] {
    let mut pools = [json!({ "limit": 3, "span": "run" }), json!({ "limit": 2 })];
    for pool in pools.iter_mut().filter(|_| fair) {
        pool["fair"] = json!({ "by": "b", "weights": { "1": 2, "true": 3 } });
    }
    let [run, executing] = pools;
    [json!({ "name": "pr", "concurrency": run }), json!({ "name": "px", "concurrency": executing })]
}

/// Converts a gate's key to the form that the reference uses.
fn place(key: &GateKey) -> Place {
    let scope = key.scope().expect("a gate's key");
    let control = if scope.pool().is_some() {
        if scope.key == Key::Whole { "pool".to_owned() } else { "pool keyed".to_owned() }
    } else if scope.class == Class::RunLimit {
        format!("run {}", scope.slot)
    } else if scope.class.control() == "concurrency" {
        format!("executing {}", scope.slot)
    } else if scope.class == Class::Throttle {
        format!("throttle {}", scope.slot)
    } else {
        scope.class.control().to_owned()
    };
    let text = |value: &Scalar| match value {
        Scalar::Text(text) => json!(text).to_string(),
        Scalar::Number(_) | Scalar::Bool(_) | Scalar::Long { .. } => value.to_string(),
    };
    let key = match &scope.key {
        Key::Whole | Key::Missing => None,
        Key::Value(value) => Some(text(value)),
        Key::Values(values) => Some(format!("{:?}", values.iter().map(text).collect::<Vec<_>>())),
    };
    let kind = scope.slot.strip_prefix("path:").unwrap_or(&scope.slot);
    let key = key.map(|key| if control == "policy" { format!("{kind} {key}") } else { key });
    Place { owner: scope.name, control, key }
}

pub(super) fn micros(ms: u64) -> Time {
    Time::from(ms) * 1000
}

fn data(n: usize, a: Field, b: Field) -> Value {
    let mut data = json!({"n": n, "c": cost(n)});
    for (name, field) in [("a", a), ("b", b)] {
        match field {
            Field::Missing | Field::Prefix(_) => {}
            Field::One => data[name] = json!(1),
            Field::OnePointZero => data[name] = json!(1.0),
            Field::TextOne => data[name] = json!("1"),
            Field::TextOneTwo => data[name] = json!("12"),
            Field::True => data[name] = json!(true),
        }
    }
    data
}

pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &str, world: &T, reference: &T) -> Same {
    if world == reference {
        return Ok(());
    }
    Err(format!("both sides differ in {what}:\n     world {world:?}\n reference {reference:?}"))
}

/// The cost in the data of an operation: small numbers, sometimes none, rarely a value that is no
/// cost.
fn cost(n: usize) -> Value {
    match n % 11 {
        3 => Value::Null,
        7 => json!("2"),
        n => json!(n % 3 + 1),
    }
}
