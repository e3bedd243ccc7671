//! Session state: one versioned JSON document per session, changed by operations.
//!
//! An operation is decided under the lock of the document, so that no operation is lost or has to
//! be retried. An operation of a run is a step: it takes effect once, in the transaction that
//! records the step. With the policy `restart` it is staged until the run completes.

mod op;
mod staged;

pub use staged::{MAX_STAGED, MAX_STAGED_BYTES};
pub(crate) use staged::{forget, settle};

use serde::{Deserialize, Serialize};

use crate::{
    command::Refusal,
    draft::{Decided, Draft, Stop},
    id::Seq,
    json::{MAX_DEPTH, Payload},
    key::{MAX_SUM_DIGITS, Path, PathError},
    row::{Row, RowKey, RunError, Session, SessionOp, SessionRef, Step, Workspace},
    schedule,
    stream::is_name,
};

/// Maximum size of a document, which is always read and written as a whole. Data that grows without
/// end should be in a stream or in another database.
pub const MAX_SESSION_BYTES: usize = 1024 * 1024;

/// Maximum total length of app, flow and session id in bytes: they must fit into an index entry of
/// PostgreSQL.
pub const MAX_REF_BYTES: usize = 1024;

/// Session operation that a run performs as one of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSessionOp {
    /// The step's id.
    pub step: String,
    /// The session.
    pub session: SessionRef,
    /// The operation.
    pub op: SessionOp,
    /// The version that the document must have; none means any version.
    pub expected_version: Option<i64>,
}

impl NewSessionOp {
    /// Returns the name of the operation: its verb, path and session. A repeated operation has the
    /// same name. Its value may differ, because a service that is called again may compute another
    /// value; the first value counts.
    fn named(&self) -> String {
        let SessionRef { app, flow, id } = &self.session;
        let at = place(op::names(&self.op));
        format!("{} at {at} of session {app}/{flow}/{id}", self.op.verb())
    }

    /// Refuses an operation if the step with its id has performed another operation.
    pub(crate) fn check_repeats(&self, step: &Step) -> Result<(), SessionError> {
        let done = step.result.as_ref().ok().and_then(|done| done.at(&[DONE.to_owned()]));
        let asked = Payload::from_value(&self.named().into());
        // Steps that older builds have recorded do not have the name, and are not compared.
        match done {
            Some(done) if done != asked => Err(SessionError::StepMismatch {
                step: self.step.clone(),
                done: done.as_str().trim_matches('"').to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Field of a step's output with the name of the operation.
const DONE: &str = "op";

/// Result of an operation. As a payload it is the output of the step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The document's current version; 0 if it was never written. Staged operations are not
    /// counted.
    pub version: i64,
    /// The current value at the path. After an append it is only the length of the list, so that a
    /// long list is not copied into the record of each step.
    pub value: Payload,
}

impl Outcome {
    /// Converts the result to a step's output, which contains the value byte for byte.
    pub fn to_payload(&self) -> Payload {
        let (version, value) = (Payload::from_value(&self.version.into()), &self.value);
        let none = Payload::null();
        let whole = none.with(&["version".to_owned()], &version);
        let whole = whole.and_then(|whole| whole.with(&["value".to_owned()], value));
        whole.expect("a member can be added to an object")
    }

    /// Converts a step's output to the result.
    pub fn from_payload(payload: &Payload) -> Option<Outcome> {
        let version = payload.at(&["version".to_owned()])?;
        let value = payload.at(&["value".to_owned()])?;
        Some(Outcome { version: version.as_str().parse().ok()?, value })
    }
}

/// Reason why an operation failed. A failed operation changes no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The value at the path has a type that the operation does not support.
    #[error("cannot {verb} at {path}: {reason}")]
    TypeMismatch {
        /// The operation.
        verb: &'static str,
        /// The path.
        path: String,
        /// The value or name that prevents the operation.
        reason: String,
    },
    /// The sum has too many digits.
    #[error("cannot increment at {path}: the sum would have more than {MAX_SUM_DIGITS} digits")]
    Number {
        /// The path.
        path: String,
    },
    /// The document would be larger than [`MAX_SESSION_BYTES`].
    #[error(
        "a session's document must be at most {MAX_SESSION_BYTES} bytes, and would have {size}"
    )]
    TooLarge {
        /// The size that the document would have.
        size: usize,
    },
    /// The document would nest deeper than [`MAX_DEPTH`].
    #[error("a session's document must nest at most {MAX_DEPTH} deep, and would nest {depth} deep")]
    TooDeep {
        /// The depth that the document would have.
        depth: usize,
    },
    /// The run has staged the maximum number of operations or bytes.
    #[error(
        "a run under `restart` stages at most {MAX_STAGED} operations of {MAX_STAGED_BYTES} bytes \
         in all"
    )]
    TooMuchStaged,
    /// The app, flow or session id is not a valid name.
    #[error("session `{name}` {rule}")]
    BadName {
        /// The given name.
        name: String,
        /// The rule that the name breaks.
        rule: String,
    },
    /// The step with this id has performed another operation.
    #[error("step `{step}` is recorded as {done}: use another step id for another operation")]
    StepMismatch {
        /// The step's id.
        step: String,
        /// The operation that the step performed.
        done: String,
    },
    /// The document does not have the version that the caller expects.
    #[error("expected version {expected} of the session, but it is at version {actual}")]
    Changed {
        /// The version that was expected.
        expected: i64,
        /// The current version.
        actual: i64,
    },
    /// A run with the policy `restart` has read a value and then set it, but another writer has
    /// changed it in between.
    #[error("{path} was {read} when the run read it, and is {now} now")]
    Conflict {
        /// The path.
        path: String,
        /// The value that the run read, shortened.
        read: String,
        /// The current value, shortened.
        now: String,
    },
}

impl SessionError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TypeMismatch { .. } => "session_type_mismatch",
            Self::Number { .. } => "session_number",
            Self::TooLarge { .. } => "session_too_large",
            Self::TooDeep { .. } => "session_too_deep",
            Self::TooMuchStaged => "session_too_much_staged",
            Self::BadName { .. } => "session_bad_name",
            Self::StepMismatch { .. } => "step_mismatch",
            Self::Changed { .. } => "session_changed",
            Self::Conflict { .. } => "session_conflict",
        }
    }

    /// Converts to the error of a step or a run. `session_conflict` becomes `SessionConflict`.
    pub fn to_fault(&self) -> RunError {
        RunError::of(self.code(), self.to_string())
    }
}

/// Parses a dotted path. An empty text means the whole document.
pub fn path(text: &str) -> Result<Option<Path>, PathError> {
    if text.is_empty() { Ok(None) } else { Path::parse(text).map(Some) }
}

/// Performs the operation of a step, and returns the step's result.
pub(crate) fn perform(
    draft: &mut Draft,
    run: Seq,
    asked: &NewSessionOp,
) -> Decided<Result<Payload, RunError>> {
    let Some(run) = draft.run(run)?.cloned() else { return Ok(Ok(Payload::null())) };
    let NewSessionOp { session, op, expected_version: expected, .. } = asked;
    let restarts = draft.catalog(&run.ws)?.restarts(run.lane) || schedule::is_restarted(&run);
    // If the run has staged operations, further ones are staged, too: the definition may have
    // changed in place since.
    let outcome = if restarts || run.staged > 0 {
        staged::stage(draft, run, session, op, *expected)?
    } else {
        write(draft, &run.ws, session, op, *expected)?
    };
    let named = Payload::from_value(&asked.named().into());
    let output = |outcome: Outcome| {
        let output = outcome.to_payload().with(&[DONE.to_owned()], &named);
        output.expect("a member can be added to an object")
    };
    Ok(outcome.map(output).map_err(|error| error.to_fault()))
}

/// Performs an operation for a caller that is not a run.
pub(crate) fn outside(
    draft: &mut Draft,
    ws: &Workspace,
    session: &SessionRef,
    op: &SessionOp,
    expected: Option<i64>,
) -> Decided<Outcome> {
    write(draft, ws, session, op, expected)?.map_err(|error| Stop::Refused(Refusal::Session(error)))
}

/// Performs an operation on the current document.
fn write(
    draft: &mut Draft,
    ws: &Workspace,
    session: &SessionRef,
    op: &SessionOp,
    expected: Option<i64>,
) -> Decided<Result<Outcome, SessionError>> {
    let checked = check(session);
    let mut row = match checked {
        Ok(()) => document(draft, ws, session)?,
        Err(error) => return Ok(Err(error)),
    };
    if let Err(error) = check_version(&row, expected) {
        return Ok(Err(error));
    }
    let done = match op::apply(&row.body, op) {
        Ok(done) => done,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(body) = done.body.filter(|body| *body != row.body) {
        (row.body, row.version) = (body, row.version + 1);
        draft.put(row.clone());
    }
    Ok(Ok(Outcome { version: row.version, value: done.value }))
}

/// Returns a session's document; `null` with version 0 if it was never written.
fn document(draft: &Draft, ws: &Workspace, session: &SessionRef) -> Decided<Session> {
    let SessionRef { app, flow, id } = session.clone();
    let key = RowKey::Session(ws.clone(), app.clone(), flow.clone(), id.clone());
    match draft.row(&key)? {
        Some(Row::Session(row)) => Ok(row.clone()),
        _ => Ok(Session { ws: ws.clone(), app, flow, id, version: 0, body: Payload::null() }),
    }
}

fn check(session: &SessionRef) -> Result<(), SessionError> {
    let SessionRef { app, flow, id } = session;
    let bad = |name: &str, rule: String| {
        let name = name.chars().take(64).flat_map(char::escape_debug).collect();
        Err(SessionError::BadName { name, rule })
    };
    for name in [app, flow, id] {
        if let Err(rule) = is_name(name) {
            return bad(name, rule);
        }
    }
    match app.len() + flow.len() + id.len() {
        size if size > MAX_REF_BYTES => bad(
            id,
            format!("must have at most {MAX_REF_BYTES} bytes with app and flow, got {size}"),
        ),
        _ => Ok(()),
    }
}

fn check_version(row: &Session, expected: Option<i64>) -> Result<(), SessionError> {
    match expected {
        Some(expected) if expected != row.version => {
            Err(SessionError::Changed { expected, actual: row.version })
        }
        Some(_) | None => Ok(()),
    }
}

/// Formats a path for people.
fn place(names: &[String]) -> String {
    match Path::from_names(names.to_vec()) {
        Ok(path) => format!("`{path}`"),
        Err(_) if names.is_empty() => "the document".to_owned(),
        Err(_) => format!("`{}`", names.join(".")),
    }
}

#[cfg(test)]
mod tests;
