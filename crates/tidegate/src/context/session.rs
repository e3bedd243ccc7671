//! Session state, as the handler of an action reads and writes it.

use serde::{Serialize, de::DeserializeOwned};
use tidegate_core::{
    json::Payload,
    key::Decimal,
    row::{SessionOp, SessionRef, StepKind},
    session::{NewSessionOp, Outcome, path},
};

use super::{
    Ctx,
    step::{Executing, read},
};
use crate::{
    handler::write,
    operate::read_session,
    step_error::{Result, StepError},
};

/// The document of a session.
///
/// Every operation is a step: it is executed and recorded in one transaction, exactly once.
///
/// In a run with the policy `restart`, writes are staged: the run sees its own writes, and all of
/// them are applied when the run completes. If it does not complete, none are.
#[derive(Clone, Debug)]
pub struct Session {
    ctx: Ctx,
    session: SessionRef,
}

impl Session {
    pub(super) fn new(ctx: &Ctx, session: SessionRef) -> Self {
        Self { ctx: ctx.clone(), session }
    }

    /// Returns the session's id.
    pub fn id(&self) -> &str {
        &self.session.id
    }

    /// Returns the committed document, without this run's staged writes, and its version.
    ///
    /// This is not a step: every attempt reads the document again. Use it inside a step that passes
    /// the document to another service.
    pub async fn current(&self) -> Result<(i64, Payload)> {
        let ws = self.ctx.activation().run.ws.clone();
        let _reading = Executing::read(&self.ctx);
        let found = read_session(self.ctx.store(), ws, self.session.clone()).await?;
        Ok(found.unwrap_or_else(|| (0, Payload::null())))
    }

    /// Returns the value at a path, or `None` if there is none.
    ///
    /// An empty path is the whole document.
    pub async fn get<T: DeserializeOwned>(&self, step: &str, at: &str) -> Result<Option<T>> {
        let value = self.perform(step, at, |path| SessionOp::Get { path }).await?;
        read(step, value)
    }

    /// Sets the value at a path.
    pub async fn set(&self, step: &str, at: &str, value: impl Serialize) -> Result<()> {
        let value = write(&value)?;
        self.perform(step, at, |path| SessionOp::Set { path, value }).await.map(drop)
    }

    /// Merges an object into the object at a path.
    ///
    /// `null` removes a member.
    pub async fn merge(&self, step: &str, at: &str, value: impl Serialize) -> Result<()> {
        let value = write(&value)?;
        self.perform(step, at, |path| SessionOp::Merge { path, value }).await.map(drop)
    }

    /// Appends a value to the list at a path, and returns the list's new length.
    pub async fn append(&self, step: &str, at: &str, value: impl Serialize) -> Result<u64> {
        let value = write(&value)?;
        let length = self.perform(step, at, |path| SessionOp::Append { path, value }).await?;
        read(step, length)
    }

    /// Adds an amount to the number at a path, and returns the new value.
    pub async fn increment<T: DeserializeOwned>(
        &self,
        step: &str,
        at: &str,
        by: impl Serialize,
    ) -> Result<T> {
        let by = write(&by)?;
        let by = Decimal::parse(by.as_str()).map_err(|error| StepError::from(error).fatal())?;
        read(step, self.perform(step, at, |path| SessionOp::Increment { path, by }).await?)
    }

    async fn perform(
        &self,
        step: &str,
        at: &str,
        op: impl FnOnce(Option<tidegate_core::key::Path>) -> SessionOp,
    ) -> Result<Payload> {
        let op = op(path(at).map_err(|error| StepError::from(error).fatal())?);
        let recorded = self.ctx.turn(step, StepKind::State).await?;
        let outcome = match recorded {
            Some(outcome) => outcome,
            None => {
                let (step, session) = (step.to_owned(), self.session.clone());
                let op = NewSessionOp { step: step.clone(), session, op, expected_version: None };
                self.ctx.activation_state().change_session(op);
                self.ctx.outcome_of(&step).await?
            }
        };
        let payload = outcome.map_err(|fault| StepError::recorded(&fault))?;
        Outcome::from_payload(&payload).map(|outcome| outcome.value).ok_or_else(|| {
            StepError::coded("BadRecord", format!("the record of step `{step}` cannot be read"))
                .fatal()
        })
    }
}
