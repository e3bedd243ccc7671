//! Actions: functions that read the state of a stream and return new events, or a refusal.

use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    stream::{Commit, Committed, Expected, NewLogged, StreamRefusal},
};

use super::{
    State, Stream, StreamEvent, event,
    load::{Until, load},
    writer::{Lost, Told, Verdict},
};
use crate::{api::unexpected, error::Error};

/// Result of an action.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acted<S> {
    /// State after the committed events.
    pub state: S,
    /// Version of the last event of the stream; -1 if it has none.
    pub version: i64,
    /// Committed events; empty if the action returned none.
    pub events: Vec<StreamEvent>,
    /// Number of calls of the action: one, and one more after each conflict.
    pub attempts: u32,
}

/// Error of an action. Nothing was committed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActError<E> {
    /// The action returned this error.
    #[error("{0}")]
    Refused(E),
    /// The stream is not at the expected version, or each attempt conflicted with another commit.
    #[error("stream `{stream}`: expected {expected}, got {}", Expected::after(*actual))]
    Conflict {
        /// Name of the stream.
        stream: String,
        /// Version that the action decided on.
        expected: Expected,
        /// Actual version of the stream; -1 if it does not exist.
        actual: i64,
    },
    /// The stream is closed.
    #[error("stream `{stream}`: closed at version {guard}, nothing more is committed")]
    Closed {
        /// Name of the stream.
        stream: String,
        /// Version of the guard event that closed the stream.
        guard: i64,
    },
    /// Any other error.
    #[error(transparent)]
    Failed(Error),
}

impl<E> From<Error> for ActError<E> {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(Refusal::Stream(refusal)) => refusal.into(),
            error => Self::Failed(error),
        }
    }
}

impl<E> From<StreamRefusal> for ActError<E> {
    fn from(refusal: StreamRefusal) -> Self {
        match refusal {
            StreamRefusal::Conflict { stream, expected, actual } => {
                Self::Conflict { stream, expected, actual }
            }
            StreamRefusal::StreamClosed { stream, guard } => Self::Closed { stream, guard },
            refusal => Self::Failed(Refusal::from(refusal).into()),
        }
    }
}

impl<S: State> Stream<S> {
    /// Calls the action with the current state, and commits its events on exactly that version.
    ///
    /// After a conflict the action is called again, so it must have no side effects. Actions of one
    /// engine on one stream are queued, so they do not conflict with each other. In every case, the
    /// action has decided on a state that the stream had after this call began.
    pub async fn act<E, F>(&self, mut action: F) -> Result<Acted<S>, ActError<E>>
    where
        E: Send,
        F: FnMut(&S) -> Result<Vec<S::Event>, E> + Send,
    {
        if let Some(version) = self.expected {
            return self.act_at(version, action).await;
        }
        let shared = self.engine.shared();
        let line = shared.lines.of::<S>(&self.engine.ws(), &self.name);
        let (mut attempts, mut conflicts, mut forgiven) = (0, 0, false);
        loop {
            let (verdict, told) = line.decide(shared, &self.trail, &mut action).await?;
            attempts += 1;
            let joined = matches!(verdict, Verdict::Joined { .. });
            // The state was cached before this call, so a conflict shows only that the cache was
            // outdated. It does not count as a retry, once: the next attempt loads the state.
            let kept = matches!(verdict, Verdict::Joined { kept: true, .. });
            let spare = kept && !std::mem::replace(&mut forgiven, kept);
            let committed = match told {
                Some(told) => outcome(told).await.map(Some),
                None => Ok(None),
            };
            match committed {
                Ok(committed) => return self.told(verdict, committed.as_deref(), attempts),
                Err(Lost::Conflict(_)) if spare => {}
                Err(Lost::Conflict(conflict)) if conflicts >= self.retries => {
                    return Err(conflict.into());
                }
                Err(Lost::Conflict(_)) => conflicts += 1,
                Err(Lost::Failed(error)) if joined => return Err(error.into()),
                // The commit of another action failed, and the state with it: decide again on the
                // current state.
                Err(Lost::Failed(_) | Lost::Void) => {}
            }
        }
    }

    /// Returns the result of the action, after its batch was committed.
    fn told<E>(
        &self,
        verdict: Verdict<S, E>,
        committed: Option<&Committed>,
        attempts: u32,
    ) -> Result<Acted<S>, ActError<E>> {
        let (loaded, events) = match (verdict, committed) {
            (Verdict::Refused(refusal), _) => return Err(ActError::Refused(refusal)),
            (Verdict::Joined { after, place, events, .. }, Some(committed)) => {
                (after, StreamEvent::committed(&self.name, events, committed, place))
            }
            (Verdict::Nothing(loaded) | Verdict::Joined { after: loaded, .. }, _) => {
                (loaded, Vec::new())
            }
        };
        Ok(Acted { state: loaded.state, version: loaded.version, events, attempts })
    }

    /// Executes an action at this version of the stream, or not at all.
    async fn act_at<E, F>(&self, version: i64, mut action: F) -> Result<Acted<S>, ActError<E>>
    where
        E: Send,
        F: FnMut(&S) -> Result<Vec<S::Event>, E> + Send,
    {
        let (stream, ws) = (self.name.clone(), self.engine.ws());
        let folded = load::<S>(&**self.engine.store(), &ws, &stream, Until::Head).await?;
        let (loaded, expected) = (folded.loaded, Expected::after(version));
        if let Some(guard) = folded.closed {
            return Err(ActError::Closed { stream, guard });
        }
        if loaded.version != version {
            return Err(ActError::Conflict { stream, expected, actual: loaded.version });
        }
        let events = action(&loaded.state).map_err(ActError::Refused)?;
        let (mut state, attempts) = (loaded.state, 1);
        if events.is_empty() {
            return Ok(Acted { state, version, events: Vec::new(), attempts });
        }
        let meta = self.trail.meta(&self.engine.shared().entropy);
        let logged = events.iter().map(|event| {
            let (name, data) = event::name_and_data(event)?;
            Ok(NewLogged { name, data, meta: meta.clone() })
        });
        let logged = logged.collect::<Result<Vec<_>, Error>>()?;
        // The expected stream number is checked, too: the stream may have been restarted meanwhile
        // and have reached the same version again.
        let seen = Some(Expected::seen(folded.log, version));
        let commit = Commit { ws: ws.clone(), stream, events: logged.clone(), expected: seen };
        let command = Command::Stream { ws, command: StreamCommand::Commit(commit) };
        let committed = match self.engine.ask(command).await? {
            Answer::Stream(StreamAnswer::Committed(committed)) => committed,
            other => return Err(unexpected(&other).into()),
        };
        for event in &events {
            state.apply(event);
        }
        let events = StreamEvent::committed(&self.name, logged, &committed, 0);
        Ok(Acted { state, version: committed.last, events, attempts })
    }
}

/// Waits for the outcome of a batch.
async fn outcome(mut told: Told) -> Result<std::sync::Arc<Committed>, Lost> {
    match told.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone().unwrap_or(Err(Lost::Void)),
        // The task that commits the batches was stopped.
        Err(_) => Err(Lost::Failed(Error::ShutDown)),
    }
}
