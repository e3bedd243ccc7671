//! More operations of callers and workers in a [`World`].

use serde_json::Value;
use tidegate_core::{
    event::{NewEvent, Outcome},
    json::Payload,
    row::Run,
    run::record::{NewWait, NewWaitOn, Recorded, Then},
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

    /// Lets a leased run wait for a signal.
    pub async fn wait_for_signal(&self, run: &Run, step: &str, name: &str) {
        let on = NewWaitOn::Signal { name: name.to_owned() };
        let wait = NewWait { step: step.to_owned(), on, until: None };
        let let_go = self.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
        assert_eq!(let_go, Ok(Recorded::LetGo));
    }
}
