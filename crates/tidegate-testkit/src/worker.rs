//! Operations of workers in a [`World`], and queries of recorded steps, for the behaviours of
//! waits, leases and versions.

use serde_json::Value;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    definition::Definition,
    event::NewEvent,
    flow::Verdict,
    id::RunId,
    reads::{ReadSet, Scan},
    row::{Ending, EngineId, GateState, Row, RowKey, Run, RunError, Step, Work},
    run::record::{NewSend, NewStep, NewWait, NewWaitOn, Record, Recorded, Then, Until},
    version::Registered,
};

use crate::{
    sample::LEASE_MS,
    world::{World, payload, step},
};

impl World {
    /// Posts one event that starts or queues one run; returns its id.
    pub async fn start(&self, name: &str, data: Value) -> RunId {
        let verdict = self.send(name, data).await;
        verdict.run().unwrap_or_else(|| panic!("`{name}` made no run: {verdict:?}"))
    }

    /// Posts one event whose run is ready at once, and leases that run.
    pub async fn drive(&self, name: &str, data: Value) -> Run {
        let verdict = self.send(name, data).await;
        let leased = self.lease_one().await;
        assert_eq!(verdict, Verdict::Started { run: leased.id });
        leased
    }

    /// Registers a definition in development mode, which may replace the definition of an existing
    /// version number.
    pub async fn define_dev(&self, definition: Value) -> Registered {
        let workflow = Definition::parse(&definition).expect("a good definition").value;
        let (ws, workflow) = (self.ws.clone(), Box::new(workflow));
        match self.run(Command::Register { ws, workflow, dev: true }).await {
            Ok(Answer::Registered(registered)) => registered,
            other => panic!("unexpected answer to a registration: {other:?}"),
        }
    }

    /// Suspends a leased run in these waits.
    pub async fn suspend(&self, run: &Run, waits: Vec<NewWait>) {
        let let_go = self.report(run, Vec::new(), Then::Suspend(waits)).await;
        assert_eq!(let_go, Ok(Recorded::LetGo));
    }

    /// Builds a wait of `ms` milliseconds from now.
    pub fn nap(&self, step: &str, ms: u64) -> NewWait {
        let until = Some(self.now().plus_ms(ms).into());
        NewWait { step: step.to_owned(), on: NewWaitOn::Time, until }
    }

    /// Reports one step that succeeded; the run continues.
    pub async fn record(&self, run: &Run, id: &str, output: Value) -> Result<Recorded, Refusal> {
        self.report(run, vec![step(id, &output)], Then::Continue).await
    }

    /// Reports a step that sends an event; the run continues.
    pub async fn tell(&self, run: &Run, step: &str, event: NewEvent) -> Result<Recorded, Refusal> {
        let engine = run.owner.expect("the run is leased");
        let sends = vec![NewSend::event(step, event)];
        let report = Record::new(run.id.seq, engine, run.fence, Then::Continue);
        let report = Record { sends, ..report };
        let known = Box::new(run.clone());
        let answer = self.run(Command::Record { known, report }).await?;
        let Answer::Recorded(recorded) = answer else {
            panic!("unexpected answer to a report: {answer:?}")
        };
        Ok(recorded)
    }

    /// Sends the heartbeat of an engine; returns whether it was accepted.
    pub async fn heartbeat(&self, engine: EngineId) -> bool {
        self.store.heartbeat(engine, LEASE_MS).await.expect("the store works")
    }

    /// Sends the first heartbeat of the engine, unless it has sent one before.
    pub async fn enlist(&self) {
        if self.row(RowKey::Engine(self.engine)).await.is_none() {
            self.heartbeat(self.engine).await;
        }
    }

    /// Registers that the engine serves every version in the workspace.
    pub async fn serve(&self) {
        self.enlist().await;
        let serve = Command::Serve { engine: self.engine, lanes: self.lanes().await };
        assert_eq!(self.run(serve).await, Ok(Answer::Done));
    }

    /// Returns the recorded steps of a run, by id.
    pub async fn steps(&self, run: RunId) -> Vec<Step> {
        let scan = Scan::Steps(run.seq);
        let snapshot = self.read(ReadSet::default().scan(scan.clone(), 1000)).await;
        let rows = snapshot.found(&scan).into_iter();
        rows.filter_map(|row| if let Row::Step(step) = row { Some(step.clone()) } else { None })
            .collect()
    }

    /// Returns the result of one step: its output as text, or its error; `None` if it is not
    /// recorded.
    pub async fn came_of(&self, run: RunId, id: &str) -> Option<Result<String, RunError>> {
        match self.row(RowKey::Step(run.seq, id.to_owned())).await {
            Some(Row::Step(step)) => Some(step.result.map(|output| output.as_str().to_owned())),
            _ => None,
        }
    }

    /// Returns the reason of a run's cancellation, and the run that caused it.
    pub async fn cancelled(&self, run: RunId) -> (String, Option<RunId>) {
        match self.ended(run).await.map(|ended| ended.ending) {
            Some(Ending::Cancelled { reason, by }) => (reason, by),
            other => panic!("{run} was not cancelled: {other:?}"),
        }
    }

    /// Asserts that the workspace has no live run, no hold, no queue and no open window or buffer.
    pub async fn check_quiet(&self) {
        self.check_holds().await;
        for row in self.dump().await {
            if let Row::Run(run) = &row {
                assert!(run.ws != self.ws, "a run is still live: {run:?}");
            }
            if let Row::Wait(wait) = &row {
                assert!(wait.ws != self.ws, "a wait was not deleted: {wait:?}");
            }
            if let Row::Chore(chore) = &row {
                let ended = matches!(&chore.work, Work::Bulk(bulk) if bulk.ended_at.is_some());
                assert!(ended || chore.ws != self.ws, "a chore was not done: {chore:?}");
            }
            let Row::Gate(gate) = row else { continue };
            if gate.key.scope().is_none_or(|scope| scope.ws != self.ws) {
                continue;
            }
            match &gate.state {
                GateState::Slots(slots) => {
                    assert!(slots.holders.is_empty(), "held: {gate:?}");
                    assert!(slots.head.is_none(), "the gate still has a queue: {gate:?}");
                    assert!(slots.folds.is_empty(), "the gate still blocks a fold: {gate:?}");
                }
                GateState::Turns(turns) => {
                    assert!(turns.pending.is_empty() && turns.head.is_none(), "{gate:?}");
                }
                GateState::Fold(_) => panic!("a window or buffer is still open: {gate:?}"),
                GateState::Meter(_) | GateState::Claim(_) | GateState::Share(_) => {}
            }
        }
    }
}

/// Builds a wait for the retry of a failed step.
pub fn again(step: &str, delay_ms: u64) -> NewWait {
    let until = Some(Until::In(delay_ms));
    NewWait { step: step.to_owned(), on: NewWaitOn::Retry { attempt: u32::MAX }, until }
}

/// Builds the condition of a wait for the data of an event with these encoded values.
pub fn event_wait(name: &str, matches: Vec<(String, Vec<u8>)>) -> NewWaitOn {
    NewWaitOn::Event { name: name.to_owned(), matches, filter: None, whole: false }
}

/// Builds a wait for an event, without a timeout.
pub fn for_event(step: &str, name: &str) -> NewWait {
    let on = event_wait(name, Vec::new());
    NewWait { step: step.to_owned(), on, until: None }
}

/// Builds a wait for an event whose fields have these values.
pub fn for_event_with(step: &str, name: &str, fields: &[(&str, Value)]) -> NewWait {
    let encoded = |(path, value): &(&str, Value)| {
        let document = payload(&serde_json::json!({ "it": value }));
        let value = tidegate_core::run::wait::encoded(&document, "it").expect("a scalar");
        ((*path).to_owned(), value)
    };
    let matches = fields.iter().map(encoded).collect();
    let on = event_wait(name, matches);
    NewWait { step: step.to_owned(), on, until: None }
}

/// Builds a wait for a signal, without a timeout.
pub fn for_signal(step: &str, name: &str) -> NewWait {
    let on = NewWaitOn::Signal { name: name.to_owned() };
    NewWait { step: step.to_owned(), on, until: None }
}

/// Builds a call of a child and a wait for its end.
pub fn for_child(step: &str, workflow: &str, data: &Value) -> NewWait {
    let (app, workflow, data) = ("default".to_owned(), workflow.to_owned(), payload(data));
    let on = NewWaitOn::Invoke { app, workflow, data };
    NewWait { step: step.to_owned(), on, until: None }
}

/// Builds a step that failed without further retries.
pub fn failed(id: &str, code: &str) -> NewStep {
    let error = RunError::new(code.to_owned(), code.to_owned());
    NewStep { result: Err(error), ..step(id, &Value::Null) }
}
