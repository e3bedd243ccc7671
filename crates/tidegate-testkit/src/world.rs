//! World of the behaviour tests: one store, one manual clock, and short methods for what users and
//! workers do.
//!
//! A [`World`] drives the store as an engine would, with one command per transaction unless the
//! test batches them, so that a behaviour reads as a story.

mod again;
mod inputs;
pub mod pools;
mod schedules;
mod seen;
mod sessions;
mod streams;
mod worker;

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

pub use inputs::{buffer, replaced, skipped, window};
use serde_json::{Value, json};
pub use sessions::{append, get, increment, merge, session, set};
pub use streams::{logged, streams_of};
use tidegate_core::{
    action::Flow,
    command::{Answer, Command, Refusal},
    definition::Definition,
    event::{NewEvent, Outcome, Posted},
    flow::Verdict,
    id::{RunId, Seq},
    json::Payload,
    reads::{ReadSet, Scan},
    request::Request,
    row::{Ended, EngineId, Gate, GateState, Phase, Row, RowKey, Run, StepKind, Workspace},
    run::{
        record::{NewStep, NewWait, NewWaitOn, Record, Recorded, Then, Until},
        sweep,
    },
    time::Timestamp,
    turn::Claim,
    version::{Registered, Released},
};
use tidegate_store::{Answered, ManualClock, Store, commit};

use crate::sample::LEASE_MS;

/// Maximum number of rows of a sweep or a lease.
const MANY: u32 = 500;

/// One store and the operations on it.
#[derive(Debug)]
pub struct World {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The store's clock.
    pub clock: Arc<ManualClock>,
    /// The workspace that the short methods use.
    pub ws: Workspace,
    /// The engine that the short methods use.
    pub engine: EngineId,
    salt: AtomicU64,
    /// The workflow that had the last turn of leases.
    turn: AtomicI64,
}

impl World {
    /// Creates a world on an empty store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Self {
            store,
            clock,
            ws: "default".into(),
            engine: 1,
            salt: AtomicU64::new(1),
            turn: AtomicI64::new(0),
        }
    }

    /// Returns a world on the same store, for another engine.
    #[must_use]
    pub fn engine(&self, engine: EngineId) -> Self {
        Self { engine, ..self.in_workspace(&self.ws) }
    }

    /// Returns a world on the same store, for another tenant.
    #[must_use]
    pub fn in_workspace(&self, ws: &str) -> Self {
        Self {
            store: self.store.clone(),
            clock: self.clock.clone(),
            ws: ws.into(),
            engine: self.engine,
            salt: AtomicU64::new(self.salt.fetch_add(1 << 32, Ordering::SeqCst) + (1 << 40)),
            turn: AtomicI64::new(0),
        }
    }

    /// Adds to a command the random number for its ids.
    pub fn salted(&self, command: Command) -> (Command, u64) {
        (command, self.salt.fetch_add(1, Ordering::SeqCst))
    }

    /// Executes commands in one transaction.
    pub async fn batch(&self, commands: Vec<Command>) -> Vec<Answered> {
        let commands = commands.into_iter().map(|command| self.salted(command)).collect();
        commit(&*self.store, commands).await.expect("the store works")
    }

    /// Executes one command.
    pub async fn run(&self, command: Command) -> Answered {
        self.batch(vec![command]).await.pop().expect("one command has one answer")
    }

    // ------------------------------------------------------------------ definitions

    /// Registers a workflow from JSON, which is released if its version is higher than all before.
    pub async fn define(&self, definition: Value) -> Registered {
        let workflow = Definition::parse(&definition).expect("a good definition").value;
        match self.try_register(workflow).await {
            Ok(registered) => registered,
            Err(refusal) => panic!("{definition} was refused: {refusal}"),
        }
    }

    /// Registers a workflow; the registration may be refused.
    pub async fn try_register(&self, workflow: Definition) -> Result<Registered, Refusal> {
        let (ws, workflow) = (self.ws.clone(), Box::new(workflow));
        match self.run(Command::Register { ws, workflow, dev: false }).await? {
            Answer::Registered(registered) => Ok(registered),
            other => panic!("unexpected answer to a registration: {other:?}"),
        }
    }

    /// Registers all actions of a flow.
    pub async fn define_flow(&self, definition: Value) {
        let flow = Flow::parse(&definition).expect("a good definition").value;
        for action in flow.actions {
            self.try_register(action).await.expect("a new action");
        }
    }

    /// Releases a version.
    pub async fn release(&self, name: &str, version: u32) -> Released {
        let (ws, app, name) = (self.ws.clone(), "default".to_owned(), name.to_owned());
        match self.run(Command::Release { ws, app, name, version }).await {
            Ok(Answer::Released(released)) => released,
            other => panic!("unexpected answer to a release: {other:?}"),
        }
    }

    // ------------------------------------------------------------------ ingress

    /// Posts one event.
    pub async fn post(&self, name: &str, data: Value) -> Posted {
        self.post_event(event(name, &data)).await
    }

    /// Posts one event with all its fields.
    pub async fn post_event(&self, event: NewEvent) -> Posted {
        self.post_all(vec![event]).await.pop().expect("one event has one answer")
    }

    /// Posts several events as one request.
    pub async fn post_all(&self, events: Vec<NewEvent>) -> Vec<Posted> {
        match self.run(Command::Post { ws: self.ws.clone(), events }).await {
            Ok(Answer::Posted(posted)) => posted,
            other => panic!("unexpected answer to a post: {other:?}"),
        }
    }

    /// Posts one event that triggers exactly one workflow; returns its verdict.
    pub async fn send(&self, name: &str, data: Value) -> Verdict {
        let posted = self.post(name, data).await;
        assert_eq!(
            posted.runs.len(),
            1,
            "`{name}` did not trigger exactly one workflow: {posted:?}"
        );
        posted.runs.into_iter().next().map(|outcome| outcome.verdict).expect("one outcome")
    }

    /// Calls an action in a session.
    pub async fn call(&self, flow: &str, action: &str, session: &str, input: Value) -> Verdict {
        let request = request(flow, action, Some(session), None, &input);
        self.dispatch(request).await.verdict
    }

    /// Calls an action.
    pub async fn dispatch(&self, request: Request) -> Outcome {
        match self.run(Command::Dispatch { ws: self.ws.clone(), request }).await {
            Ok(Answer::Admitted(outcome)) => outcome,
            other => panic!("unexpected answer to a request: {other:?}"),
        }
    }

    /// Starts an occurrence of a workflow's schedule, planned for the current time.
    pub async fn occur(&self, workflow: &str, schedule: &str) -> Verdict {
        let occurrence = self.set_schedule(workflow, schedule, self.now()).await;
        match self.run(Command::Occur { occurrence }).await {
            Ok(Answer::Admitted(outcome)) => outcome.verdict,
            other => panic!("unexpected answer to an occurrence: {other:?}"),
        }
    }

    // ------------------------------------------------------------------ workers

    /// Returns the lane of each version in the workspace: the number by which its runs are leased.
    pub async fn lanes(&self) -> Vec<Seq> {
        let snapshot = self.read(ReadSet::default().catalog(&self.ws)).await;
        let catalog = snapshot.catalogs.get(&self.ws);
        let entries = catalog.iter().flat_map(|catalog| catalog.entries());
        entries.flat_map(|(_, entry)| entry.versions.values().map(|version| version.lane)).collect()
    }

    /// Leases up to `limit` ready runs, the workflows in turn; returns them by rank.
    pub async fn lease(&self, limit: u32) -> Vec<Run> {
        let (engine, lanes) = (self.engine, self.lanes().await);
        self.enlist().await;
        let claim = Claim::all(self.ws.clone()).after(Seq(self.turn.load(Ordering::SeqCst)));
        match self.run(lease_by(claim, engine, lanes, limit)).await {
            Ok(Answer::Leased(mut runs)) => {
                if let Some(last) = runs.last() {
                    self.turn.store(last.turn().0, Ordering::SeqCst);
                }
                runs.sort_by_key(|run| run.rank);
                runs
            }
            other => panic!("unexpected answer to a lease: {other:?}"),
        }
    }

    /// Leases all ready runs.
    pub async fn lease_all(&self) -> Vec<Run> {
        self.lease(MANY).await
    }

    /// Leases the only ready run.
    pub async fn lease_one(&self) -> Run {
        let mut runs = self.lease_all().await;
        assert_eq!(runs.len(), 1, "not exactly one run is ready: {runs:?}");
        runs.pop().expect("one run")
    }

    /// Sends a report on a leased run.
    pub async fn report(
        &self,
        run: &Run,
        steps: Vec<NewStep>,
        then: Then,
    ) -> Result<Recorded, Refusal> {
        let engine = run.owner.expect("the run is leased");
        let report = Record { steps, ..Record::new(run.id.seq, engine, run.fence, then) };
        let known = Box::new(run.clone());
        match self.run(Command::Record { known, report }).await? {
            Answer::Recorded(recorded) => Ok(recorded),
            other => panic!("unexpected answer to a report: {other:?}"),
        }
    }

    /// Completes a leased run.
    pub async fn complete(&self, run: &Run) {
        let done = self.report(run, Vec::new(), Then::Complete(payload(&json!("done")))).await;
        assert_eq!(done, Ok(Recorded::LetGo));
    }

    /// Fails a leased run without further retries.
    pub async fn fail(&self, run: &Run) {
        let error = tidegate_core::row::RunError::new("Boom", "boom");
        assert_eq!(self.report(run, Vec::new(), Then::Fail(error)).await, Ok(Recorded::LetGo));
    }

    /// Puts a leased run to sleep for `ms` milliseconds.
    pub async fn sleep(&self, run: &Run, step: &str, ms: u64) {
        let until = Some(Until::In(ms));
        let wait = NewWait { step: step.to_owned(), on: NewWaitOn::Time, until };
        let let_go = self.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
        assert_eq!(let_go, Ok(Recorded::LetGo));
    }

    /// Lets a leased run wait for an event, with a match on fields.
    pub async fn wait_for(&self, run: &Run, step: &str, name: &str, matches: &[(&str, Value)]) {
        let encoded = |(path, value): &(&str, Value)| {
            let document = payload(&json!({ "it": value }));
            let value = tidegate_core::run::wait::encoded(&document, "it").expect("a scalar");
            ((*path).to_owned(), value)
        };
        let matches = matches.iter().map(encoded).collect();
        let on = crate::worker::event_wait(name, matches);
        let wait = NewWait { step: step.to_owned(), on, until: None };
        let let_go = self.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
        assert_eq!(let_go, Ok(Recorded::LetGo));
    }

    /// Reports as a worker that a cancelled run has stopped.
    pub async fn stopped(&self, run: &Run) {
        let answer = self.run(Command::Stopped { known: Box::new(run.clone()) }).await;
        assert_eq!(answer, Ok(Answer::Done));
    }

    /// Leases and completes all ready runs, again and again until none is left; returns them in
    /// order.
    pub async fn drain(&self) -> Vec<RunId> {
        let mut done = Vec::new();
        loop {
            let runs = self.lease_all().await;
            if runs.is_empty() {
                return done;
            }
            for run in runs {
                self.complete(&run).await;
                done.push(run.id);
            }
        }
    }

    // ------------------------------------------------------------------ operators

    /// Cancels a run.
    pub async fn cancel(&self, run: RunId) -> Answered {
        self.run(Command::Cancel { ws: self.ws.clone(), run, reason: "by hand".into() }).await
    }

    /// Pauses a run.
    pub async fn pause(&self, run: RunId) -> Answered {
        self.run(Command::Pause { ws: self.ws.clone(), run }).await
    }

    /// Resumes a run.
    pub async fn resume(&self, run: RunId) -> Answered {
        self.run(Command::Resume { ws: self.ws.clone(), run }).await
    }

    /// Sends a signal.
    pub async fn signal(&self, run: RunId, name: &str, data: Value) -> Answered {
        let (name, data) = (name.to_owned(), payload(&data));
        self.run(Command::Signal { ws: self.ws.clone(), run, name, data }).await
    }

    // ------------------------------------------------------------------ time

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        tidegate_store::Clock::now(&*self.clock)
    }

    /// Advances the clock without a sweep.
    pub fn pass(&self, ms: u64) {
        self.clock.set(self.now().plus_ms(ms));
    }

    /// Advances the clock by `ms` milliseconds and sweeps.
    pub async fn tick(&self, ms: u64) {
        self.pass(ms);
        self.sweep().await;
    }

    /// Processes due rows until none is left.
    pub async fn sweep(&self) {
        for round in 0..1000 {
            let kinds = [
                Scan::DueGates(Timestamp::MIN),
                Scan::DueRuns(Timestamp::MIN),
                Scan::DueChores(Timestamp::MIN),
            ];
            let all = kinds.iter().cloned();
            let due = all.fold(ReadSet::default(), |reads, scan| reads.scan(scan, MANY));
            let snapshot = self.read(due).await;
            let now = snapshot.now;
            // The clock may have stepped back since the last sweep, but not during this one.
            let mut found: Vec<&Row> = kinds.iter().flat_map(|scan| snapshot.found(scan)).collect();
            // Gates that are due at the same time may be processed in any order. The reference does
            // it in the order in which runs take them.
            let order = |gate: &Gate| (gate.due, gate.key.scope().map(|scope| scope.order()));
            found.sort_by_key(|row| {
                row.as_gate().map_or((true, None), |it| (false, Some(order(it))))
            });
            let looks = found.into_iter().filter_map(|row| sweep::look(row, now, round == 0));
            let due = looks.filter(|(due, _)| *due <= now);
            let commands: Vec<_> = due.map(|(_, command)| command).collect();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                self.run(command).await.expect("a sweep is never refused");
            }
        }
        panic!("the sweep does not end");
    }

    /// Marks an engine dead and reaps its runs, as other engines do after the end of its lease.
    /// Returns the number of reaped runs.
    pub async fn lose(&self, engine: EngineId) -> usize {
        let beat = if let Some(Row::Engine(row)) = self.row(RowKey::Engine(engine)).await {
            row.beat
        } else {
            assert!(self.store.heartbeat(engine, LEASE_MS).await.expect("the store works"));
            1
        };
        let dead = self.run(Command::MarkDead { engine, beat }).await;
        assert!(matches!(dead, Ok(Answer::Changed(_))), "{dead:?}");
        let snapshot = self.read(ReadSet::default().scan(Scan::Owned(engine), MANY)).await;
        let mut reaped = 0;
        for row in snapshot.found(&Scan::Owned(engine)) {
            if let Row::Run(known) = row {
                let answer = self
                    .run(Command::Reap {
                        known: known.clone(),
                        engine,
                        max_deaths: sweep::MAX_DEATHS,
                    })
                    .await;
                let taken = matches!(answer, Ok(Answer::Changed(true) | Answer::Paused { .. }));
                reaped += usize::from(taken);
            }
        }
        reaped
    }

    // ------------------------------------------------------------------ queries

    /// Reads without locks.
    pub async fn read(&self, reads: ReadSet) -> tidegate_core::reads::Snapshot {
        self.store.read(reads).await.expect("the store works")
    }

    /// Returns one row.
    pub async fn row(&self, key: RowKey) -> Option<Row> {
        let snapshot = self.read(ReadSet::default().row(key.clone())).await;
        snapshot.rows.get(&key).cloned().flatten()
    }

    /// Returns a run that has not ended.
    pub async fn live(&self, run: RunId) -> Option<Run> {
        match self.row(RowKey::Run(run.seq)).await {
            Some(Row::Run(run)) => Some(*run),
            _ => None,
        }
    }

    /// Returns a run that has ended.
    pub async fn ended(&self, run: RunId) -> Option<Ended> {
        match self.row(RowKey::Ended(run.seq)).await {
            Some(Row::Ended(ended)) => Some(ended),
            _ => None,
        }
    }

    /// Returns the status that users see: `queued`, `running`, `waiting`, `paused`, `completed`,
    /// `failed` or `cancelled`; `none` if there is no such run.
    pub async fn state(&self, run: RunId) -> &'static str {
        if let Some(ended) = self.ended(run).await {
            return ended.ending.state();
        }
        match self.live(run).await.map(|run| run.phase) {
            Some(Phase::Queued { .. } | Phase::Ready) => "queued",
            Some(Phase::Driven | Phase::Stopping) => "running",
            Some(Phase::Waiting) => "waiting",
            Some(Phase::Paused) => "paused",
            None => "none",
        }
    }

    /// Returns all rows of the store.
    pub async fn dump(&self) -> Vec<Row> {
        self.store.dump().await.expect("the store works")
    }

    /// Counts the runs of a workflow that have not ended.
    pub async fn alive(&self, workflow: &str) -> usize {
        let rows = self.dump().await;
        let of = |row: &Row| matches!(row, Row::Run(run) if run.workflow == workflow && run.phase != Phase::Stopping);
        rows.iter().filter(|row| of(row)).count()
    }

    /// Asserts that holds and runs agree: the run of every hold is live and lists it, and every
    /// listed hold exists.
    pub async fn check_holds(&self) {
        let rows = self.dump().await;
        let runs: Vec<&Run> = rows
            .iter()
            .filter_map(|row| match row {
                Row::Run(run) => Some(&**run),
                _ => None,
            })
            .collect();
        for row in &rows {
            let Row::Gate(gate) = row else { continue };
            let GateState::Slots(slots) = &gate.state else { continue };
            for hold in &slots.holders {
                let holder = runs.iter().find(|run| run.id == hold.run);
                let agrees = holder.is_some_and(|run| {
                    let entered = run.plan.iter().take(run.entered);
                    let mut of_gate = entered.filter(|need| need.gate == gate.key);
                    of_gate.any(|need| need.costs.one() == hold.cost)
                });
                assert!(
                    agrees,
                    "{:?} is held by {} which does not say so, or with another cost",
                    gate.key.scope(),
                    hold.run
                );
            }
            if let Some(waiting) = slots.waiting {
                let here = |run: &&&Run| matches!(run.phase, Phase::Queued { gate: at, .. } if at == gate.id);
                let queued = runs.iter().filter(here).count();
                let scope = gate.key.scope();
                assert_eq!(waiting as usize, queued, "{scope:?} counts its waiting runs wrongly");
            }
            for run in runs.iter().filter(|run| run.holds(&gate.key)) {
                let held = slots.holders.iter().any(|hold| hold.run == run.id);
                assert!(
                    held,
                    "run {} lists a hold of {:?} that does not exist",
                    run.id,
                    gate.key.scope()
                );
            }
        }
    }
}

/// Builds an event with a name and data.
pub fn event(name: &str, data: &Value) -> NewEvent {
    NewEvent::new(name, payload(data))
}

/// Builds a request in the default app.
pub fn request(
    flow: &str,
    action: &str,
    session: Option<&str>,
    user: Option<&str>,
    input: &Value,
) -> Request {
    Request {
        app: "default".to_owned(),
        flow: flow.to_owned(),
        action: action.to_owned(),
        input: payload(input),
        session: session.map(str::to_owned),
        user: user.map(str::to_owned),
        metadata: payload(&json!({})),
        function_key: None,
        max_wait_ms: None,
        deliver: None,
    }
}

/// Builds a step that succeeded.
pub fn step(id: &str, output: &Value) -> NewStep {
    NewStep { id: id.to_owned(), kind: StepKind::Run, result: Ok(payload(output)) }
}

/// Converts data to a payload.
pub fn payload(data: &Value) -> Payload {
    Payload::from_value(data)
}

/// Builds the command that leases ready runs of these lanes. It claims runs of the whole workspace;
/// a real engine claims only the ranges of the lanes that it serves.
pub fn lease(ws: Workspace, engine: EngineId, lanes: Vec<Seq>, limit: u32) -> Command {
    lease_by(Claim::all(ws), engine, lanes, limit)
}

fn lease_by(claim: Claim, engine: EngineId, lanes: Vec<Seq>, limit: u32) -> Command {
    let (claims, serves) = (vec![(claim, MANY)], Arc::new(lanes.into_iter().collect()));
    Command::Lease { engine, claims, serves, limit }
}
