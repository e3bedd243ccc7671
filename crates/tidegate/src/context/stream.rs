//! Stream commits of a run: steps whose events are committed together with their record.

use std::future::poll_fn;

use serde::Serialize;
use tidegate_core::{
    json::Payload,
    row::StepKind,
    run::record::{NewCommit, NewStep},
    stream::{Commit, Committed, Expected, NewLogged},
};

use super::{Ctx, Outcome, step::Executing};
use crate::{
    step_error::{Result, StepError},
    stream::{DEFAULT_RETRIES, State, Trail, Until, event, load},
    telemetry,
};

impl Ctx {
    /// Appends events to a stream, exactly once however often the handler is replayed: they are
    /// committed with the step's record.
    ///
    /// The events have the run as their correlation, and the step as their cause.
    pub async fn commit<E: Serialize>(
        &self,
        id: impl Into<String>,
        stream: impl Into<String>,
        events: &[E],
    ) -> Result<Committed> {
        let (step, stream) = (id.into(), stream.into());
        let recorded = self.turn(&step, StepKind::Commit).await?;
        let outcome = match recorded {
            Some(outcome) => Some(outcome),
            None => {
                let events = self.logged(&step, events)?;
                self.try_commit(&step, stream, events, None).await?
            }
        };
        let nothing = || bad_record(&step);
        read(&step, outcome.ok_or_else(nothing)?)?.ok_or_else(nothing)
    }

    /// Decides new events on a stream's state and commits them at exactly the version that the
    /// decision saw, exactly once however often the handler is replayed.
    ///
    /// If another commit comes first, the action is called again on the new state. If the action
    /// returns an error, that is recorded as the step's result. Returns `None` if the action
    /// returned no events.
    pub async fn act<S, F>(
        &self,
        id: impl Into<String>,
        stream: impl Into<String>,
        mut action: F,
    ) -> Result<Option<Committed>>
    where
        S: State,
        F: FnMut(&S) -> Result<Vec<S::Event>> + Send,
    {
        let (step, stream) = (id.into(), stream.into());
        if let Some(outcome) = self.turn(&step, StepKind::Commit).await? {
            return read(&step, outcome);
        }
        for _ in 0..=DEFAULT_RETRIES {
            let loaded = {
                let _reading = Executing::read(self);
                load::<S>(self.store(), &self.activation().run.ws, &stream, Until::Head).await?
            };
            let events = match action(&loaded.loaded.state) {
                Ok(events) if !events.is_empty() => events,
                decided => {
                    let result = decided.map(|_| Payload::null()).map_err(|it| it.to_row());
                    return self.conclude(step, result);
                }
            };
            let (events, version) = (self.logged(&step, &events)?, loaded.loaded.version);
            let expected = Some(Expected::seen(loaded.log, version));
            if let Some(outcome) = self.try_commit(&step, stream.clone(), events, expected).await? {
                return read(&step, outcome);
            }
        }
        let times = DEFAULT_RETRIES + 1;
        let message =
            format!("stream `{stream}`: {times} attempts in a row conflicted with other commits");
        Err(StepError::coded("Conflict", message))
    }

    /// Records a step that commits nothing.
    fn conclude(&self, id: String, result: Outcome) -> Result<Option<Committed>> {
        self.activation_state().finish(NewStep {
            id: id.clone(),
            kind: StepKind::Commit,
            result: result.clone(),
        });
        read(&id, result)
    }

    /// Commits events together with the step's record. Returns `None` after a conflict, which is
    /// not recorded.
    async fn try_commit(
        &self,
        step: &str,
        stream: String,
        events: Vec<NewLogged>,
        expected: Option<Expected>,
    ) -> Result<Option<Outcome>> {
        let commit = Commit { ws: self.activation().run.ws.clone(), stream, events, expected };
        self.activation_state().commit(NewCommit { step: step.to_owned(), commit });
        poll_fn(|cx| self.activation_state().poll_durable(cx)).await;
        let outcome = self.record_of(step).await?;
        match &outcome {
            Some(Ok(_)) => telemetry::stream_committed(),
            Some(Err(_)) => {}
            None => telemetry::stream_conflict(),
        }
        if outcome.is_some() {
            self.activation_state().progressed(step);
        }
        Ok(outcome)
    }

    fn logged<E: Serialize>(&self, step: &str, events: &[E]) -> Result<Vec<NewLogged>> {
        let trail = Trail::new(self.run_id().to_string(), self.idempotency_key(step));
        let meta = trail.meta(&self.0.shared.entropy);
        let logged = events.iter().map(|event| {
            let (name, data) = event::name_and_data(event)?;
            Ok(NewLogged { name, data, meta: meta.clone() })
        });
        logged.collect()
    }
}

/// Converts a step's record.
fn read(step: &str, outcome: Outcome) -> Result<Option<Committed>> {
    let recorded = outcome.map_err(|fault| StepError::recorded(&fault))?;
    if recorded == Payload::null() {
        return Ok(None);
    }
    let value = serde_json::from_str(recorded.as_str()).ok();
    let committed = value.as_ref().and_then(Committed::from_value);
    committed.map(Some).ok_or_else(|| bad_record(step))
}

fn bad_record(step: &str) -> StepError {
    StepError::coded("BadRecord", format!("the record of step `{step}` cannot be read")).fatal()
}
