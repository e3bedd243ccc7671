//! Operations on session state in a [`World`].

use serde_json::Value;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    json::Payload,
    key::{Decimal, Path},
    row::{Row, RowKey, Run, RunError, SessionOp, SessionRef},
    run::record::{Record, Recorded, Then},
    session::{self, NewSessionOp, Outcome},
};

use super::{World, payload};

/// Returns the reference to a session of the flow `chat` in the default app.
pub fn session(id: &str) -> SessionRef {
    SessionRef { app: "default".to_owned(), flow: "chat".to_owned(), id: id.to_owned() }
}

fn path(text: &str) -> Option<Path> {
    session::path(text).expect("a good path")
}

/// Builds an operation that reads the value at a path; the empty path is the whole document.
pub fn get(at: &str) -> SessionOp {
    SessionOp::Get { path: path(at) }
}

/// Builds an operation that writes a value at a path.
#[expect(clippy::needless_pass_by_value, reason = "callers pass `json!` values")]
pub fn set(at: &str, value: Value) -> SessionOp {
    SessionOp::Set { path: path(at), value: payload(&value) }
}

/// Builds an operation that merges members into an object.
#[expect(clippy::needless_pass_by_value, reason = "callers pass `json!` values")]
pub fn merge(at: &str, value: Value) -> SessionOp {
    SessionOp::Merge { path: path(at), value: payload(&value) }
}

/// Builds an operation that adds a value to the end of a list.
#[expect(clippy::needless_pass_by_value, reason = "callers pass `json!` values")]
pub fn append(at: &str, value: Value) -> SessionOp {
    SessionOp::Append { path: path(at), value: payload(&value) }
}

/// Builds an operation that adds to a number.
pub fn increment(at: &str, by: i64) -> SessionOp {
    SessionOp::Increment { path: path(at), by: Decimal::from(by) }
}

impl World {
    /// Builds a run's report with operations on sessions.
    pub fn reporting(&self, run: &Run, session: Vec<NewSessionOp>, then: Then) -> Command {
        let engine = run.owner.expect("the run is leased");
        let (run_seq, fence, steps, sends) = (run.id.seq, run.fence, Vec::new(), Vec::new());
        let report = Record { steps, sends, session, ..Record::new(run_seq, engine, fence, then) };
        Command::Record { known: Box::new(run.clone()), report }
    }

    /// Reports a session operation of a leased run in the flow `chat`; the run continues.
    pub async fn operate(
        &self,
        run: &Run,
        step: &str,
        id: &str,
        op: SessionOp,
    ) -> Result<Recorded, Refusal> {
        let (step, session) = (step.to_owned(), session(id));
        let asked = NewSessionOp { step, session, op, expected_version: None };
        match self.run(self.reporting(run, vec![asked], Then::Continue)).await? {
            Answer::Recorded(recorded) => Ok(recorded),
            other => panic!("unexpected answer to a report: {other:?}"),
        }
    }

    /// As [`World::operate`]; returns the result of the step.
    pub async fn state_step(
        &self,
        run: &Run,
        step: &str,
        id: &str,
        op: SessionOp,
    ) -> Result<Outcome, RunError> {
        assert_eq!(self.operate(run, step, id, op).await, Ok(Recorded::GoOn));
        let step = self.step_of(run.id, step).await.expect("the step is recorded");
        step.result.map(|output| Outcome::from_payload(&output).expect("an outcome"))
    }

    /// As [`World::state_step`], for a step that succeeds: returns the step's value.
    pub async fn told(&self, run: &Run, step: &str, id: &str, op: SessionOp) -> Value {
        let outcome = self.state_step(run, step, id, op).await.expect("it fits");
        value(&outcome.value)
    }

    /// Applies an operation to a session of `chat`, without a run.
    pub async fn patch(
        &self,
        id: &str,
        op: SessionOp,
        expected_version: Option<i64>,
    ) -> Result<Outcome, Refusal> {
        let (ws, session) = (self.ws.clone(), session(id));
        match self.run(Command::Session { ws, session, op, expected_version }).await? {
            Answer::Session(outcome) => Ok(outcome),
            other => panic!("unexpected answer to a session operation: {other:?}"),
        }
    }

    /// Returns the stored document of a session of `chat`, with its version.
    pub async fn document_text(&self, id: &str) -> Option<(i64, String)> {
        let SessionRef { app, flow, id } = session(id);
        match self.row(RowKey::Session(self.ws.clone(), app, flow, id)).await {
            Some(Row::Session(row)) => Some((row.version, row.body.as_str().to_owned())),
            _ => None,
        }
    }

    /// Returns the document of a session of `chat`; `null` if there is none.
    pub async fn document(&self, id: &str) -> Value {
        match self.document_text(id).await {
            Some((_, text)) => serde_json::from_str(&text).expect("plain JSON"),
            None => Value::Null,
        }
    }

    /// Returns the number of staged operations of all runs.
    pub async fn staged(&self) -> usize {
        self.dump().await.iter().filter(|row| matches!(row, Row::Staged(_))).count()
    }
}

fn value(payload: &Payload) -> Value {
    serde_json::from_str(payload.as_str()).expect("plain JSON")
}
