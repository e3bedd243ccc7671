//! More operations of callers and workers in a [`World`].

use serde_json::Value;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    event::{NewEvent, Outcome},
    flow::{adaptive::NewOverload, close::NewClose},
    json::Payload,
    row::Run,
    run::record::{NewWait, NewWaitOn, Record, Recorded, Then, Until},
};

use super::{World, payload};

impl World {
    /// Posts one event that triggers exactly one workflow. Its data is text, which is stored byte
    /// for byte.
    pub async fn send_text(&self, name: &str, data: &str) -> Outcome {
        let data = Payload::parse(data.as_bytes(), usize::MAX).expect("good JSON");
        let event = NewEvent::new(name, data);
        let mut posted = self.post_event(event).await;
        assert_eq!(
            posted.runs.len(),
            1,
            "`{name}` did not trigger exactly one workflow: {posted:?}"
        );
        posted.runs.pop().expect("one outcome")
    }

    /// Lets a leased run call a child and wait for it.
    pub async fn invoke(&self, run: &Run, step: &str, workflow: &str, data: Value) {
        let (app, workflow, data) = ("default".to_owned(), workflow.to_owned(), payload(&data));
        let on = NewWaitOn::Invoke { app, workflow, data };
        let wait = NewWait { step: step.to_owned(), on, until: None };
        let let_go = self.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
        assert_eq!(let_go, Ok(Recorded::LetGo));
    }

    /// Reports that a step of a leased run has met an overload, at the pool if one is named. The run
    /// waits `ms` milliseconds for the next attempt.
    pub async fn overload(&self, run: &Run, step: &str, pool: Option<&str>, ms: u64) {
        let until = Some(Until::In(ms));
        let wait =
            NewWait { step: step.to_owned(), on: NewWaitOn::Retry { attempt: u32::MAX }, until };
        let overload = NewOverload { step: step.to_owned(), pool: pool.map(str::to_owned) };
        let engine = run.owner.expect("the run is leased");
        let record = Record::new(run.id.seq, engine, run.fence, Then::Suspend(vec![wait]));
        let report = Record { overloads: vec![overload], ..record };
        let known = Box::new(run.clone());
        let answer = self.run(Command::Record { known, report }).await;
        assert_eq!(answer, Ok(Answer::Recorded(Recorded::LetGo)));
    }

    /// Lets a leased run close gates; it goes on.
    pub async fn close_gate(&self, run: &Run, close: NewClose) {
        let recorded = self.try_close_gate(run, close, Then::Continue).await;
        assert_eq!(recorded, Ok(Recorded::GoOn));
    }

    /// Reports that a run closes gates, and what it does then.
    pub async fn try_close_gate(
        &self,
        run: &Run,
        close: NewClose,
        then: Then,
    ) -> Result<Recorded, Refusal> {
        let engine = run.owner.expect("the run is leased");
        let record = Record::new(run.id.seq, engine, run.fence, then);
        let (known, report) = (Box::new(run.clone()), Record { closes: vec![close], ..record });
        match self.run(Command::Record { known, report }).await? {
            Answer::Recorded(recorded) => Ok(recorded),
            other => panic!("unexpected answer to a report: {other:?}"),
        }
    }

    /// Lets a leased run wait for a signal.
    pub async fn wait_for_signal(&self, run: &Run, step: &str, name: &str) {
        let on = NewWaitOn::Signal { name: name.to_owned() };
        let wait = NewWait { step: step.to_owned(), on, until: None };
        let let_go = self.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
        assert_eq!(let_go, Ok(Recorded::LetGo));
    }
}
