//! The state of sessions: a JSON document each, with a version, changed by operations.
//!
//! An operation is decided under the lock of its document, so that none is ever lost and none has
//! to be tried again. A run's operation is one of its steps: it takes effect with the step's
//! record, once. Under the policy `restart` it is staged until the run completes.

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

/// The largest document. It is read and written whole; what grows without end belongs into a
/// stream, or into a database of its own.
pub const MAX_SESSION_BYTES: usize = 1024 * 1024;

/// The most bytes of app, flow and session together: an index entry of PostgreSQL holds them.
pub const MAX_REF_BYTES: usize = 1024;

/// An operation that a run does as one of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSessionOp {
    /// The step's id.
    pub step: String,
    /// The session.
    pub session: SessionRef,
    /// What is done.
    pub op: SessionOp,
    /// The version that the document must have; any, if none is given.
    pub expected_version: Option<i64>,
}

impl NewSessionOp {
    /// What is done and where, by which a repetition is known. A value may differ: a service that
    /// is called again need not compute the same, and the first one counts.
    fn named(&self) -> String {
        let SessionRef { app, flow, id } = &self.session;
        let at = place(op::names(&self.op));
        format!("{} at {at} of session {app}/{flow}/{id}", self.op.verb())
    }

    /// Refuses an operation under the id of a step that has done another one.
    pub(crate) fn check_repeats(&self, step: &Step) -> Result<(), SessionError> {
        let done = step.result.as_ref().ok().and_then(|done| done.at(&[DONE.to_owned()]));
        let asked = Payload::from_value(&self.named().into());
        // What was recorded before steps said what they did is not compared.
        match done {
            Some(done) if done != asked => Err(SessionError::StepMismatch {
                step: self.step.clone(),
                done: done.as_str().trim_matches('"').to_owned(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// The member of a step's output that says what it did.
const DONE: &str = "op";

/// What an operation came to. As a payload it is the output of the step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The document's version now; 0 where nobody has written it. What a run has staged is not
    /// counted.
    pub version: i64,
    /// What stands at the path now. After an append it is the list's length: a conversation that
    /// grows message by message must not be copied into the record of each.
    pub value: Payload,
}

impl Outcome {
    /// As a step's output. The value stays byte for byte.
    pub fn to_payload(&self) -> Payload {
        let (version, value) = (Payload::from_value(&self.version.into()), &self.value);
        let none = Payload::null();
        let whole = none.with(&["version".to_owned()], &version);
        let whole = whole.and_then(|whole| whole.with(&["value".to_owned()], value));
        whole.expect("an object takes any member")
    }

    /// Back from a step's output.
    pub fn from_payload(payload: &Payload) -> Option<Outcome> {
        let version = payload.at(&["version".to_owned()])?;
        let value = payload.at(&["value".to_owned()])?;
        Some(Outcome { version: version.as_str().parse().ok()?, value })
    }
}

/// Why an operation was not done. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// What stands there is of a kind that the operation does not work on.
    #[error("cannot {verb} at {path}: {reason}")]
    TypeMismatch {
        /// What was to be done.
        verb: &'static str,
        /// Where.
        path: String,
        /// What is in the way.
        reason: String,
    },
    /// The sum cannot be written down.
    #[error("cannot increment at {path}: the sum would have more than {MAX_SUM_DIGITS} digits")]
    Number {
        /// Where.
        path: String,
    },
    /// The document would be larger than [`MAX_SESSION_BYTES`].
    #[error(
        "a session's document must be at most {MAX_SESSION_BYTES} bytes, and would have {size}"
    )]
    TooLarge {
        /// Its size then.
        size: usize,
    },
    /// The document would nest deeper than [`MAX_DEPTH`].
    #[error("a session's document must nest at most {MAX_DEPTH} deep, and would nest {depth} deep")]
    TooDeep {
        /// Its depth then.
        depth: usize,
    },
    /// The run has staged all that it may.
    #[error(
        "a run under `restart` stages at most {MAX_STAGED} operations of {MAX_STAGED_BYTES} bytes \
         in all"
    )]
    TooMuchStaged,
    /// App, flow or session is no name.
    #[error("session `{name}` {rule}")]
    BadName {
        /// What was given.
        name: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// The step has done something else.
    #[error("step `{step}` is recorded as {done}: give another operation another id")]
    StepMismatch {
        /// The step's id.
        step: String,
        /// What it did.
        done: String,
    },
    /// The document is not of the version that the caller knows.
    #[error("the session is at version {actual}, and version {expected} was expected")]
    Changed {
        /// The version that was expected.
        expected: i64,
        /// The version that it has.
        actual: i64,
    },
    /// Somebody else changed what a run under `restart` has read and then set.
    #[error("{path} was {read} when the run read it, and is {now} now")]
    Conflict {
        /// Where.
        path: String,
        /// What the run read, shortened.
        read: String,
        /// What stands there, shortened.
        now: String,
    },
}

impl SessionError {
    /// The stable code.
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

    /// As the error of a step or a run, whose codes are words: `SessionConflict`.
    pub fn to_fault(&self) -> RunError {
        RunError::of(self.code(), self.to_string())
    }
}

/// A path as callers write it: dotted; empty for the whole document.
pub fn path(text: &str) -> Result<Option<Path>, PathError> {
    if text.is_empty() { Ok(None) } else { Path::parse(text).map(Some) }
}

/// Does what a step asks for; what came of it is the step's result.
pub(crate) fn perform(
    draft: &mut Draft,
    run: Seq,
    asked: &NewSessionOp,
) -> Decided<Result<Payload, RunError>> {
    let Some(run) = draft.run(run)?.cloned() else { return Ok(Ok(Payload::null())) };
    let NewSessionOp { session, op, expected_version: expected, .. } = asked;
    let restarts = draft.catalog(&run.ws)?.restarts(run.lane) || schedule::is_restarted(&run);
    // What was staged before a definition changed in place is still staged.
    let outcome = if restarts || run.staged > 0 {
        staged::stage(draft, run, session, op, *expected)?
    } else {
        write(draft, &run.ws, session, op, *expected)?
    };
    let named = Payload::from_value(&asked.named().into());
    let output = |outcome: Outcome| {
        let output = outcome.to_payload().with(&[DONE.to_owned()], &named);
        output.expect("an object takes any member")
    };
    Ok(outcome.map(output).map_err(|error| error.to_fault()))
}

/// Does what somebody outside of any run asks for.
pub(crate) fn outside(
    draft: &mut Draft,
    ws: &Workspace,
    session: &SessionRef,
    op: &SessionOp,
    expected: Option<i64>,
) -> Decided<Outcome> {
    write(draft, ws, session, op, expected)?.map_err(|error| Stop::Refused(Refusal::Session(error)))
}

/// Does an operation on the document as it is.
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

/// A session's document; `null` at version 0 where nobody has written it.
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

/// A path as people read it.
fn place(names: &[String]) -> String {
    match Path::from_names(names.to_vec()) {
        Ok(path) => format!("`{path}`"),
        Err(_) if names.is_empty() => "the document".to_owned(),
        Err(_) => format!("`{}`", names.join(".")),
    }
}

#[cfg(test)]
mod tests;
