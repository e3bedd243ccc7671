//! One driven run in its simulated engine: its script, its recorded steps, and its current action.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_core::{
    flow::{
        adaptive::NewOverload,
        close::{GateToClose, NewClose},
        step_pool::{PoolAnswer, PoolAsk},
    },
    json::Payload,
    reads::{ReadSet, Scan},
    row::{Begun, EngineId, Row, RowKey, Run, RunError, StepKind},
    run::{
        record::{NewAsk, NewSend, NewStep, NewWait, NewWaitOn, Record, Then, Until},
        wait,
    },
};

use super::{
    script::{Op, Script, StepUse, When},
    trace::Effect,
    workload::LONGEST_CLOSING,
    world::World,
};
use crate::{
    workload::Chance,
    world::{event, payload},
};

/// Maximum depth of calls and sends.
const DEEPEST: u64 = 2;

/// The name of the signal that handlers wait for.
pub const SIGNAL: &str = "go";

/// The data of a signal that is sent by its name.
pub const BY_NAME: &str = "by name";

#[derive(Clone, Debug)]
enum Doing {
    Load,
    Next,
    Busy(Effect, u64),
    Reported,
}

/// What a task needs from its engine next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all values are reports")]
pub enum Wish {
    /// Another turn at this time.
    Later(u64),
    /// The commit of a report.
    Report(Box<Run>, Record),
}

/// A driven run.
#[derive(Clone, Debug)]
pub struct Drive {
    /// The run as it was leased.
    pub run: Box<Run>,
    /// The time of the next action.
    pub at: u64,
    data: Value,
    recorded: BTreeSet<String>,
    reported: Vec<String>,
    /// Steps whose waits have begun under this lease.
    begun: BTreeSet<String>,
    /// Answers to the steps that have asked for their pools under this lease.
    answers: BTreeMap<String, PoolAnswer>,
    doing: Doing,
}

impl Drive {
    /// Creates the task for a run that was just leased.
    pub fn new(run: Run, at: u64) -> Self {
        let (data, recorded, reported) = (Value::Null, BTreeSet::new(), Vec::new());
        let granted = run.in_pools.iter().map(|step| (step.clone(), PoolAnswer::Entered));
        let (begun, answers, doing) = (BTreeSet::new(), granted.collect(), Doing::Load);
        Self { run: Box::new(run), at, data, recorded, reported, begun, answers, doing }
    }

    /// Continues after a committed report.
    pub fn go_on(&mut self) {
        self.recorded.extend(self.reported.drain(..));
        (self.doing, self.at) = (Doing::Next, 0);
    }

    /// Continues with the answers to the steps that have asked for their pools.
    pub fn go_on_with(&mut self, answers: Vec<(String, PoolAnswer)>) {
        self.answers.extend(answers);
        self.go_on();
    }

    /// Ends the running step closure, because the engine does not drive the run any more.
    pub fn drop_effect(&self, world: &mut World) {
        if let Doing::Busy(effect, _) = &self.doing {
            world.end(effect);
        }
    }

    /// Performs the next action.
    pub fn drive(&mut self, world: &mut World, chance: &mut Chance, engine: EngineId) -> Wish {
        match self.doing.clone() {
            Doing::Load => {
                let loaded = self.load(world);
                self.doing = if loaded { Doing::Next } else { Doing::Load };
                Wish::Later(world.now + chance.between(0, 1000))
            }
            Doing::Next if chance.permille(10) => self.report(Vec::new(), Vec::new(), Then::Yield),
            Doing::Next => self.next(world, engine),
            Doing::Busy(_, until) if until > world.now => Wish::Later(until),
            Doing::Busy(effect, _) => {
                world.end(&effect);
                self.finish(world, chance, effect.step)
            }
            Doing::Reported => Wish::Later(u64::MAX),
        }
    }

    fn load(&mut self, world: &mut World) -> bool {
        let (steps, input) = (Scan::Steps(self.run.id.seq), self.run.source.first().seq);
        let input = RowKey::Event(input);
        let reads = ReadSet::default().scan(steps.clone(), 1000).row(input.clone());
        let Some(snapshot) = world.read(reads) else { return false };
        for row in snapshot.found(&steps) {
            if let Row::Step(step) = row {
                self.recorded.insert(step.id.clone());
            }
        }
        if let Some(Some(Row::Event(event))) = snapshot.rows.get(&input) {
            let data: Value = serde_json::from_str(event.data.as_str()).expect("data is JSON");
            self.data = if data.get("input").is_some() { data["input"].clone() } else { data };
        }
        true
    }

    fn script<'a>(&self, world: &'a World) -> &'a Script {
        let spec =
            world.plan.spec(&self.run.workflow).expect("the run is of a workflow of the plan");
        &spec.version(self.run.version).1
    }

    /// Replays the script up to the first operation that is not recorded.
    fn next(&mut self, world: &mut World, engine: EngineId) -> Wish {
        if self.run.begun == Begun::No {
            // An engine has died while it drove the run, so the begin of the handler is recorded
            // first.
            self.run.begun = Begun::Yes;
            return self.report(Vec::new(), Vec::new(), Then::Continue);
        }
        let script = self.script(world).clone();
        let deep = self.data["d"].as_u64().unwrap_or(0) >= DEEPEST;
        for (n, op) in script.ops.iter().enumerate() {
            let id = format!("s{n}");
            let after = |ms: u64| Some(Until::In(ms));
            let wait = |step: &str, on, until| NewWait { step: step.to_owned(), on, until };
            let signal = || NewWaitOn::Signal { name: SIGNAL.to_owned() };
            let waits = match op {
                _ if self.recorded.contains(&id) => continue,
                Op::Invoke(_) | Op::Send(_) if deep => continue,
                // This call is left out: two versions of one workflow may block each other, and the
                // caller could wait for ever.
                Op::Invoke(name) if *name == self.run.workflow && world.plan.releases > 0 => {
                    continue;
                }
                Op::Step { ms, pools, .. } => match self.step(world, engine, id, *ms, pools) {
                    Ok(new) => vec![new],
                    Err(wish) => return wish,
                },
                Op::Send(name) => {
                    let event = event(name, &self.deeper());
                    self.reported = vec![id.clone()];
                    return self.report(vec![], vec![NewSend::event(id, event)], Then::Continue);
                }
                Op::Sleep(ms) => vec![wait(&id, NewWaitOn::Time, after(*ms))],
                Op::Event { name, own, timeout, when, early } => {
                    let (name, matches) = ((*name).to_owned(), self.matches(*own));
                    let filter = when.map(When::of_wait);
                    let on = NewWaitOn::Event { name, matches, filter, whole: false };
                    let new = wait(&id, on, timeout.and_then(after));
                    if !early {
                        vec![new]
                    } else if !self.has_begun(&id) {
                        return self.begin_wait(new);
                    } else if let Some((next, ms)) = self.step_after(&script, n) {
                        return self.begin(world, engine, next, ms, &[]);
                    } else {
                        vec![wait(&id, NewWaitOn::Registered, None)]
                    }
                }
                Op::Named { name, replace, timeout } => {
                    let on = NewWaitOn::Named { name: (*name).to_owned(), replace: *replace };
                    vec![wait(&id, on, timeout.and_then(after))]
                }
                Op::Signal(timeout) => vec![wait(&id, signal(), timeout.and_then(after))],
                Op::Invoke(workflow) => {
                    let data = payload(&self.deeper());
                    let (app, workflow) = ("default".to_owned(), workflow.clone());
                    vec![wait(&id, NewWaitOn::Invoke { app, workflow, data }, None)]
                }
                Op::Both(ms) => {
                    let (a, b) = (format!("{id}a"), format!("{id}b"));
                    let both = [wait(&a, NewWaitOn::Time, after(*ms)), wait(&b, signal(), None)];
                    let open = both.into_iter().filter(|it| !self.recorded.contains(&it.step));
                    let waits: Vec<_> = open.collect();
                    if waits.is_empty() {
                        continue;
                    }
                    waits
                }
            };
            return self.report(Vec::new(), Vec::new(), Then::Suspend(waits));
        }
        let done = || Then::Complete(payload(&json!("done")));
        let then = if script.fails { Then::Fail(fault("Scripted")) } else { done() };
        self.report(Vec::new(), Vec::new(), then)
    }

    /// Executes a step, or asks for the places that it needs. Returns its wait for them, if it waits.
    #[expect(clippy::result_large_err, reason = "a wish is moved once, in a test")]
    fn step(
        &mut self,
        world: &mut World,
        engine: EngineId,
        id: String,
        ms: u64,
        pools: &[StepUse],
    ) -> Result<NewWait, Wish> {
        let asks: Vec<PoolAsk> = pools.iter().map(|it| it.ask(&self.data)).collect();
        Err(match self.answers.get(&id) {
            _ if asks.is_empty() => self.begin(world, engine, id, ms, &[]),
            Some(PoolAnswer::Entered) => self.begin(world, engine, id, ms, &asks),
            Some(PoolAnswer::Waits) => {
                return Ok(NewWait { step: id, on: NewWaitOn::Pools(asks), until: None });
            }
            Some(PoolAnswer::Refused(error)) => {
                self.report(vec![], vec![], Then::Fail(error.clone()))
            }
            None => self.ask(NewAsk { step: id, pools: asks }),
        })
    }

    /// Whether the wait of a step has begun in an earlier report.
    fn has_begun(&self, step: &str) -> bool {
        self.begun.contains(step) || self.run.waits.iter().any(|wait| wait.step == step)
    }

    /// Begins a wait; the handler goes on.
    fn begin_wait(&mut self, new: NewWait) -> Wish {
        self.begun.insert(new.step.clone());
        match self.report(Vec::new(), Vec::new(), Then::Continue) {
            Wish::Report(run, report) => Wish::Report(run, Record { waits: vec![new], ..report }),
            later @ Wish::Later(_) => later,
        }
    }

    /// Returns the step after an operation and its duration, if it has to be executed, does not fail
    /// and passes no pool.
    fn step_after(&self, script: &Script, n: usize) -> Option<(String, u64)> {
        let id = format!("s{}", n + 1);
        match script.ops.get(n + 1)? {
            Op::Step { ms, fails: 0, pools }
                if pools.is_empty() && !self.recorded.contains(&id) =>
            {
                Some((id, *ms))
            }
            _ => None,
        }
    }

    fn ask(&mut self, ask: NewAsk) -> Wish {
        match self.report(Vec::new(), Vec::new(), Then::Continue) {
            Wish::Report(run, report) => Wish::Report(run, Record { asks: vec![ask], ..report }),
            later @ Wish::Later(_) => later,
        }
    }

    fn begin(
        &mut self,
        world: &mut World,
        engine: EngineId,
        step: String,
        ms: u64,
        pools: &[PoolAsk],
    ) -> Wish {
        let effect = Effect { engine, run: self.run.id, fence: self.run.fence, step };
        world.start(&effect, pools);
        let until = world.now + ms * 1000;
        self.doing = Doing::Busy(effect, until);
        Wish::Later(until)
    }

    /// Handles the end of a step closure.
    fn finish(&mut self, world: &World, chance: &mut Chance, id: String) -> Wish {
        let script = self.script(world);
        let n: usize = id[1..].parse().expect("the id of a step is its index in the script");
        let fails = match script.ops.get(n) {
            Some(Op::Step { fails, .. }) => *fails,
            _ => 0,
        };
        let failures = self.run.failures.get(&id).copied().unwrap_or(0);
        let deferrals = self.run.deferrals.get(&id).copied().unwrap_or(0);
        let attempt = failures + deferrals + 1;
        if failures < fails
            && deferrals < 2
            && let Some((gate, ms)) = script.closes.clone()
        {
            let ms = ms.min(LONGEST_CLOSING);
            let (until, max_ms) = (Until::In(ms), LONGEST_CLOSING);
            let closes = vec![NewClose { gate, until, max_ms }];
            let wait =
                NewWait { step: id, on: NewWaitOn::Deferred { attempt }, until: Some(until) };
            let pool = match &closes[0].gate {
                GateToClose::Pool(pool) => Some(pool.clone()),
                GateToClose::Throttle | GateToClose::Concurrency => None,
            };
            let overloads = vec![NewOverload { step: wait.step.clone(), pool }];
            let wish = self.report(Vec::new(), Vec::new(), Then::Suspend(vec![wait]));
            let Wish::Report(run, report) = wish else { return wish };
            return Wish::Report(run, Record { closes, overloads, ..report });
        }
        if failures < fails {
            let overload = NewOverload { step: id.clone(), pool: None };
            let overloads = script.overloads.then_some(overload).into_iter().collect();
            let then = if failures + 1 < script.attempts {
                let until = Some(Until::In(script.backoff_ms));
                Then::Suspend(vec![NewWait { step: id, on: NewWaitOn::Retry { attempt }, until }])
            } else {
                Then::Fail(fault("Exhausted"))
            };
            let wish = self.report(Vec::new(), Vec::new(), then);
            let Wish::Report(run, report) = wish else { return wish };
            return Wish::Report(run, Record { overloads, ..report });
        }
        self.reported = vec![id.clone()];
        let result = Ok(payload(&json!({ "by": self.run.fence })));
        let step = NewStep { id, kind: StepKind::Run, result };
        // The record of the last step and the end of the run may be in one report.
        let last = n + 1 == script.ops.len() && !script.fails && chance.percent(50);
        let then = if last { Then::Complete(Payload::null()) } else { Then::Continue };
        self.report(vec![step], Vec::new(), then)
    }

    fn report(&mut self, steps: Vec<NewStep>, sends: Vec<NewSend>, then: Then) -> Wish {
        self.doing = Doing::Reported;
        let (run, fence) = (self.run.id.seq, self.run.fence);
        let engine = self.run.owner.expect("a leased run has an owner");
        let session = Vec::new();
        Wish::Report(
            self.run.clone(),
            Record { steps, sends, session, ..Record::new(run, engine, fence, then) },
        )
    }

    fn deeper(&self) -> Value {
        let mut data = self.data.clone();
        data["d"] = json!(data["d"].as_u64().unwrap_or(0) + 1);
        data
    }

    fn matches(&self, own: bool) -> Vec<(String, Vec<u8>)> {
        let document = payload(&self.data);
        let value = wait::encoded(&document, "k").filter(|_| own);
        value.map(|value| ("k".to_owned(), value)).into_iter().collect()
    }
}

fn fault(code: &str) -> RunError {
    RunError::new(code.to_owned(), code.to_owned())
}
