//! A simulated process that drives all workflows, dies when the store fails, and restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    definition::Definition,
    event::NewEvent,
    flow::step_pool::PoolAnswer,
    id::{EventId, RunId},
    reads::{ReadSet, Scan},
    row::{GateState, Kind, Phase, Purpose, Row, RowKey, Run, RunError, Source, StepKind},
    run::record::{NewAsk, NewSend, NewStep, NewWait, NewWaitOn, Record, Recorded, Then, Until},
    session::NewSessionOp,
    time::Timestamp,
};
use tidegate_store::{Answered, ManualClock, Store, StoreError, commit};
use tidegate_testkit::{
    worker::{again, for_child, for_event, for_signal},
    world::{World, event, increment, lease, payload, pools::whole, session as in_session, step},
};

/// Maximum time by which the clock is advanced to the next due time. Later due times (expiry of
/// claims and of unused gates) are ignored, so that `work` ends.
const SOON_MS: u64 = 30_000;

/// One action of a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// A step.
    Step(&'static str),
    /// A step that fails once and is retried.
    Shaky(&'static str),
    /// A step that passes these pools.
    Pooled(&'static str, [&'static str; 2]),
    /// Registers a compensation.
    Undo(&'static str),
    /// A step that sends an event of this name.
    Send(&'static str, &'static str),
    /// A step that increments a counter in the session `s` of `chat`.
    Count(&'static str),
    /// A sleep of this many milliseconds.
    Sleep(&'static str, u64),
    /// A wait for an event of this name.
    Event(&'static str, &'static str),
    /// A wait for a signal of this name.
    Signal(&'static str, &'static str),
    /// A wait for a child run of this workflow.
    Child(&'static str, &'static str),
    /// The engine hands the run over; once per run.
    Yield,
    /// The handler fails, and the run is not retried.
    Fail,
}

/// A process: an engine, the runs that it drives, and its handlers.
pub(crate) struct Process {
    pub(crate) world: World,
    handlers: BTreeMap<String, Vec<Act>>,
    /// Runs that are leased but not driven yet.
    held: Vec<Run>,
    yielded: BTreeSet<RunId>,
}

/// Error: the process has died.
struct Died;

impl From<StoreError> for Died {
    fn from(error: StoreError) -> Self {
        let planned = matches!(error, StoreError::Unknown(_) | StoreError::Unavailable(_));
        assert!(planned, "the store failed with an error that the test did not inject: {error}");
        Self
    }
}

impl Process {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let world = World::new(store, clock);
        Self { world, handlers: BTreeMap::new(), held: Vec::new(), yielded: BTreeSet::new() }
    }

    async fn attempt(&self, command: Command) -> Result<Answered, Died> {
        let command = self.world.salted(command);
        let mut answers = commit(&*self.world.store, vec![command]).await?;
        Ok(answers.pop().expect("one answer for one command"))
    }

    /// Replaces the dead process by a new one with another engine id, which reaps the runs of the
    /// dead one.
    pub(crate) async fn restart(&mut self) {
        let dead = self.world.engine;
        self.world.engine += 1;
        self.held.clear();
        let _ = self.world.heartbeat(dead).await;
        while self.take_over(dead).await.is_err() {}
    }

    async fn take_over(&self, dead: u128) -> Result<(), Died> {
        if let Some(Row::Engine(row)) = self.world.row(RowKey::Engine(dead)).await {
            let _ = self.attempt(Command::MarkDead { engine: dead, beat: row.beat }).await?;
        }
        let owned = Scan::Owned(dead);
        let snapshot = self.world.read(ReadSet::default().scan(owned.clone(), 100)).await;
        for run in snapshot.found(&owned).into_iter().filter_map(Row::as_run) {
            let known = Box::new(run.clone());
            let _ = self
                .attempt(Command::Reap {
                    known,
                    engine: dead,
                    max_deaths: tidegate_core::run::sweep::MAX_DEATHS,
                })
                .await?;
        }
        Ok(())
    }

    // ------------------------------------------------------------------ callers

    /// Sends a command as a caller does: repeats it until it is answered.
    pub(crate) async fn ask(&mut self, command: Command) -> Answered {
        loop {
            match self.attempt(command.clone()).await {
                Ok(answered) => return answered,
                Err(Died) => self.restart().await,
            }
        }
    }

    /// Registers a workflow, and the actions of its handler.
    pub(crate) async fn serve(&mut self, definition: Value, acts: &[Act]) {
        let workflow = Definition::parse(&definition).expect("a good definition").value;
        self.handle(&workflow.name, acts);
        let (ws, workflow) = (self.world.ws.clone(), Box::new(workflow));
        let register = Command::Register { ws, workflow, dev: false };
        self.ask(register).await.expect("the definition is registered");
    }

    /// Sets the actions of the handler of a workflow.
    pub(crate) fn handle(&mut self, name: &str, acts: &[Act]) {
        self.handlers.insert(name.to_owned(), acts.to_vec());
    }

    /// Posts an event. Its `dedupeId` is made of its name and data, so that a repeated post has no
    /// effect.
    pub(crate) async fn post(&mut self, name: &str, data: Value) -> EventId {
        self.post_after(name, data, None).await
    }

    /// As [`Process::post`], for an event that is delivered after a delay.
    pub(crate) async fn post_after(
        &mut self,
        name: &str,
        data: Value,
        delay: Option<u64>,
    ) -> EventId {
        let dedupe_id = Some(format!("{name} {data}"));
        let (name, data) = (name.to_owned(), payload(&data));
        let events = vec![NewEvent {
            dedupe_id,
            deliver: delay.map(Until::In),
            ..NewEvent::new(name, data)
        }];
        match self.ask(Command::Post { ws: self.world.ws.clone(), events }).await {
            Ok(Answer::Posted(posted)) => posted.first().expect("one event").id,
            other => panic!("unexpected answer to Post: {other:?}"),
        }
    }

    /// Returns the run that an event has started.
    pub(crate) async fn run_of(&self, event: EventId) -> RunId {
        let mut ids = self.world.dump().await.into_iter().filter_map(|row| match row {
            Row::Run(run) if run.source.first() == event => Some((run.purpose, run.id)),
            Row::Ended(run) if run.source.first() == event => Some((run.purpose, run.id)),
            _ => None,
        });
        let id = ids.find(|(purpose, _)| *purpose == Purpose::Ordinary).map(|(_, id)| id);
        id.expect("the event has started a run")
    }

    pub(crate) async fn cancel(&mut self, run: RunId) {
        let (ws, reason) = (self.world.ws.clone(), "by hand".to_owned());
        let answer = self.ask(Command::Cancel { ws, run, reason }).await;
        let again = Err(Refusal::Ended { run, state: "cancelled" });
        assert!(answer == Ok(Answer::Done) || answer == again, "{answer:?}");
    }

    pub(crate) async fn signal(&mut self, run: RunId, name: &str) {
        let (ws, name, data) = (self.world.ws.clone(), name.to_owned(), payload(&Value::Null));
        self.ask(Command::Signal { ws, run, name, data }).await.expect("the run has not ended");
    }

    // ------------------------------------------------------------------ the engine

    /// Leases all ready runs without driving them.
    pub(crate) async fn hold(&mut self) {
        while self.lease().await.is_err() {
            self.restart().await;
        }
    }

    async fn lease(&mut self) -> Result<(), Died> {
        let (ws, engine, lanes) =
            (self.world.ws.clone(), self.world.engine, self.world.lanes().await);
        self.world.enlist().await;
        match self.attempt(lease(ws, engine, lanes, 100)).await? {
            Ok(Answer::Leased(runs)) => {
                self.held.extend(runs);
                Ok(())
            }
            other => panic!("unexpected answer to Lease: {other:?}"),
        }
    }

    /// Sweeps, leases and drives runs until no run can continue without input from outside.
    pub(crate) async fn work(&mut self) {
        for _ in 0..1000 {
            match self.work_once().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(Died) => self.restart().await,
            }
        }
        panic!("the process still has work after 1000 rounds");
    }

    async fn work_once(&mut self) -> Result<bool, Died> {
        let swept = self.sweep_once().await?;
        self.lease().await?;
        let driven = self.held.len();
        while let Some(run) = self.held.pop() {
            self.drive(&run).await?;
        }
        if swept + driven > 0 {
            return Ok(true);
        }
        let soon = self.world.now().plus_ms(SOON_MS);
        let dues = self.world.dump().await.into_iter().filter_map(|row| match row {
            Row::Gate(gate) => gate.due,
            Row::Run(run) => run.due(),
            _ => None,
        });
        match dues.min().filter(|due| *due <= soon) {
            Some(due) => self.world.clock.set(due),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Advances the time and processes all rows that are then due.
    pub(crate) async fn tick(&mut self, ms: u64) {
        self.world.pass(ms);
        loop {
            match self.sweep_once().await {
                Ok(0) => return,
                Ok(_) => {}
                Err(Died) => self.restart().await,
            }
        }
    }

    async fn sweep_once(&self) -> Result<usize, Died> {
        let kinds = [
            Scan::DueGates(Timestamp::MIN),
            Scan::DueRuns(Timestamp::MIN),
            Scan::DueChores(Timestamp::MIN),
        ];
        let all = kinds.iter().cloned();
        let due = all.fold(ReadSet::default(), |reads, scan| reads.scan(scan, 100));
        let ws = &self.world.ws;
        let mut swept = 0;
        let snapshot = self.world.read(due).await;
        for row in kinds.iter().flat_map(|scan| snapshot.found(scan)) {
            let command = match row {
                Row::Gate(gate) if gate.due <= Some(snapshot.now) => {
                    Command::SweepGate { ws: ws.clone(), gate: gate.key.clone() }
                }
                Row::Run(run) if run.due() <= Some(snapshot.now) => {
                    Command::SweepRun { ws: ws.clone(), run: run.id.seq }
                }
                Row::Chore(chore) if chore.due <= Some(snapshot.now) => {
                    Command::SweepChore { known: Box::new(chore.clone()) }
                }
                Row::Gate(_) | Row::Run(_) | Row::Chore(_) => continue,
                other => panic!("a scan of due rows has found {other:?}"),
            };
            self.attempt(command).await?.expect("a sweep is never refused");
            swept += 1;
        }
        Ok(swept)
    }

    async fn drive(&mut self, run: &Run) -> Result<(), Died> {
        if self.world.live(run.id).await.is_none_or(|run| run.phase == Phase::Stopping) {
            let known = Box::new(run.clone());
            self.attempt(Command::Stopped { known }).await?.expect("a stop is never refused");
            return Ok(());
        }
        let steps = self.world.steps(run.id).await;
        let acts = match run.purpose {
            Purpose::Ordinary => self.handlers.get(&run.workflow).cloned(),
            Purpose::Compensates(_) => Some(vec![Act::Step("undone"), Act::Sleep("nap", 5)]),
            Purpose::OnFailure(_) => Some(vec![Act::Step("handled")]),
        };
        for act in acts.expect("every workflow has a handler") {
            let (Act::Step(id)
            | Act::Pooled(id, _)
            | Act::Shaky(id)
            | Act::Undo(id)
            | Act::Send(id, _)
            | Act::Count(id)) = act
            else {
                match self.leave(run, act, &steps) {
                    Some(then) => return self.report(run, None, then).await,
                    None => continue,
                }
            };
            if steps.iter().any(|step| step.id == id) {
                continue;
            }
            if let Act::Pooled(id, pools) = act
                && !self.enter(run, id, pools).await?
            {
                return Ok(());
            }
            if matches!(act, Act::Shaky(_)) && run.failures.is_empty() {
                let then = Then::Suspend(vec![again(id, 10)]);
                return self.report(run, None, then).await;
            }
            self.report(run, Some(act), Then::Continue).await?;
            let live = self.world.live(run.id).await;
            if live.is_none_or(|live| live.phase != Phase::Driven) {
                return Ok(());
            }
        }
        self.report(run, None, Then::Complete(payload(&Value::Null))).await
    }

    /// Returns what the run reports at an action that is not a step (wait, yield or fail); `None`
    /// if the action is done already.
    fn leave(&mut self, run: &Run, act: Act, steps: &[tidegate_core::row::Step]) -> Option<Then> {
        let wait = |id: &str, wait: NewWait| {
            let done = steps.iter().any(|step| step.id == id);
            (!done).then(|| Then::Suspend(vec![wait]))
        };
        match act {
            Act::Sleep(id, ms) => wait(id, self.world.nap(id, ms)),
            Act::Event(id, name) => wait(id, for_event(id, name)),
            Act::Signal(id, name) => wait(id, for_signal(id, name)),
            Act::Child(id, workflow) => wait(id, for_child(id, workflow, &Value::Null)),
            Act::Yield => self.yielded.insert(run.id).then_some(Then::Yield),
            Act::Fail => {
                let (code, message) = ("Boom".to_owned(), "boom".to_owned());
                Some(Then::Fail(RunError::new(code, message)))
            }
            Act::Step(_)
            | Act::Pooled(..)
            | Act::Shaky(_)
            | Act::Undo(_)
            | Act::Send(..)
            | Act::Count(_) => None,
        }
    }

    /// Asks for the places of a step, and parks the run if there is no room. Returns whether the step
    /// may begin.
    async fn enter(&self, run: &Run, id: &str, pools: [&str; 2]) -> Result<bool, Died> {
        let pools = pools.map(|pool| whole(pool, 1)).to_vec();
        let report = |then| Record::new(run.id.seq, self.world.engine, run.fence, then);
        let ask = NewAsk { step: id.to_owned(), pools: pools.clone() };
        let asks = Record { asks: vec![ask], ..report(Then::Continue) };
        let on = NewWaitOn::Pools(pools);
        let wait = NewWait { step: id.to_owned(), on, until: None };
        for report in [asks, report(Then::Suspend(vec![wait]))] {
            let known = Box::new(run.clone());
            let answer = self.attempt(Command::Record { known, report }).await?;
            match answer.expect("the run is still leased") {
                Answer::Recorded(Recorded::Asked(answers)) => match &answers[0].1 {
                    PoolAnswer::Entered => return Ok(true),
                    PoolAnswer::Waits => {}
                    PoolAnswer::Refused(error) => panic!("the step was refused: {error:?}"),
                },
                other => assert_eq!(other, Answer::Recorded(Recorded::LetGo)),
            }
        }
        Ok(false)
    }

    async fn report(&self, run: &Run, done: Option<Act>, then: Then) -> Result<(), Died> {
        let (mut steps, mut sends, mut session) = (Vec::new(), Vec::new(), Vec::new());
        match done {
            Some(Act::Step(id) | Act::Pooled(id, _) | Act::Shaky(id)) => {
                steps.push(step(id, &Value::Null));
            }
            Some(Act::Undo(id)) => {
                steps.push(NewStep { kind: StepKind::Compensate, ..step(id, &Value::Null) });
            }
            Some(Act::Send(id, name)) => {
                sends.push(NewSend::event(id, event(name, &Value::Null)));
            }
            Some(Act::Count(id)) => {
                let (step, op) = (id.to_owned(), increment("n", 1));
                let asked =
                    NewSessionOp { step, session: in_session("s"), op, expected_version: None };
                session.push(asked);
            }
            _ => {}
        }
        let (engine, fence) = (self.world.engine, run.fence);
        let report = Record::new(run.id.seq, engine, fence, then);
        let report = Record { steps, sends, session, ..report };
        let known = Box::new(run.clone());
        self.attempt(Command::Record { known, report }).await?.expect("the run is still leased");
        Ok(())
    }

    // ------------------------------------------------------------------ outcome

    /// Returns the outcome as sorted texts without ids: every event, every ended run with its
    /// version, inputs, steps and state, every session, and rows that should not be left.
    pub(crate) async fn came_of_it(&self) -> Vec<String> {
        let rows = self.world.dump().await;
        let mut answer = Vec::new();
        for row in &rows {
            match row {
                Row::Event(event) if event.kind == Kind::Event => {
                    answer.push(format!("event {} {}", event.name, event.data.as_str()));
                }
                Row::Ended(ended) => {
                    let inputs: Vec<_> = inputs(&rows, ended.id, ended.source);
                    let steps = self.world.steps(ended.id).await;
                    let steps: Vec<_> = steps
                        .iter()
                        .map(|step| format!("{}={}", step.id, step.result.is_ok()))
                        .collect();
                    let (name, version) = (&ended.workflow, ended.version);
                    let state = ended.ending.state();
                    answer.push(format!("run {name} {version} {inputs:?} {steps:?} {state}"));
                }
                Row::Session(row) => {
                    answer.push(format!(
                        "session {} {} {}",
                        row.id,
                        row.version,
                        row.body.as_str()
                    ));
                }
                Row::Staged(row) => answer.push(format!("staged by {:?}", row.run)),
                Row::Gate(gate)
                    if !matches!(
                        gate.state,
                        GateState::Claim(_) | GateState::Share(_) | GateState::Slots(_)
                    ) =>
                {
                    answer.push(format!("gate {:?}", gate.key.scope().map(|scope| scope.class)));
                }
                _ => {}
            }
        }
        answer.sort();
        answer
    }
}

/// Returns the data of a run's inputs, in order.
fn inputs(rows: &[Row], run: RunId, source: Source) -> Vec<String> {
    let events: Vec<EventId> = match source {
        Source::Event(event) => vec![event],
        Source::Batch(_) => rows
            .iter()
            .filter_map(|row| match row {
                Row::Item(item) if item.run == run.seq => Some(item.event),
                _ => None,
            })
            .collect(),
    };
    let data = |id: &EventId| {
        rows.iter().find_map(|row| match row {
            Row::Event(event) if event.id == *id => Some(event.data.as_str().to_owned()),
            _ => None,
        })
    };
    events.iter().map(|id| data(id).expect("the event is recorded")).collect()
}
