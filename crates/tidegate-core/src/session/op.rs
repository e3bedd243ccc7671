//! The effect of each session operation on a document.

use super::{MAX_SESSION_BYTES, SessionError, place};
use crate::{
    json::{Blocked, MAX_DEPTH, Obstacle, Payload},
    key::Decimal,
    row::SessionOp,
};

/// Result of an operation.
#[derive(Debug)]
pub(super) struct Done {
    /// The new document; none if it was only read.
    pub(super) body: Option<Payload>,
    /// The value returned to the caller.
    pub(super) value: Payload,
}

/// Applies an operation to a document. All other parts of it stay the same, byte for byte.
pub(super) fn apply(body: &Payload, op: &SessionOp) -> Result<Done, SessionError> {
    let names = names(op);
    let there = body.at(names).filter(|value| value.kind() != "null");
    let mismatch =
        |verb, reason: String| SessionError::TypeMismatch { verb, path: place(names), reason };
    // `answer` is the value for the caller, if it is not the new value at the path.
    let (verb, value, answer) = match op {
        SessionOp::Get { .. } => {
            return Ok(Done { body: None, value: there.unwrap_or_else(Payload::null) });
        }
        SessionOp::Set { value, .. } => ("set", check_depth(value)?.clone(), None),
        SessionOp::Merge { value, .. } => {
            check_depth(value)?;
            if value.kind() != "an object" {
                return Err(mismatch("merge", format!("the given value is {}", value.kind())));
            }
            let old = there.unwrap_or_else(|| Payload::from_value(&serde_json::json!({})));
            if old.kind() != "an object" {
                return Err(mismatch("merge", format!("the value is {}", old.kind())));
            }
            ("merge", old.merged(value), None)
        }
        SessionOp::Append { value, .. } => {
            let old = there.unwrap_or_else(|| Payload::from_value(&serde_json::json!([])));
            let appended = old.appended(check_depth(value)?);
            let (list, length) = appended
                .ok_or_else(|| mismatch("append", format!("the value is {}", old.kind())))?;
            ("append", list, Some(Payload::from_value(&length.into())))
        }
        SessionOp::Increment { by, .. } => {
            let old = there.unwrap_or_else(|| Payload::from_value(&0.into()));
            if old.kind() != "a number" {
                return Err(mismatch("increment", format!("the value is {}", old.kind())));
            }
            let sum = Decimal::parse(old.as_str().trim()).ok().and_then(|old| old.plus(by));
            let sum = sum.ok_or_else(|| SessionError::Number { path: place(names) })?;
            ("increment", Payload::number(&sum), None)
        }
    };
    let body = body.with(names, &value).map_err(|blocked| in_the_way(verb, names, &blocked))?;
    check_size(&body)?;
    Ok(Done { body: Some(body), value: answer.unwrap_or(value) })
}

/// Returns the names of an operation's path; empty for the whole document.
pub(super) fn names(op: &SessionOp) -> &[String] {
    op.path().map(crate::key::Path::names).unwrap_or_default()
}

fn in_the_way(verb: &'static str, names: &[String], blocked: &Blocked) -> SessionError {
    let at = place(&names[..blocked.names]);
    let reason = match &blocked.by {
        Obstacle::Kind(kind) => format!("the value at {at} is {kind}"),
        Obstacle::NoElement(count) => {
            let name = &names[blocked.names];
            format!("the list at {at} has {count} elements, but no element `{name}`")
        }
    };
    SessionError::TypeMismatch { verb, path: place(names), reason }
}

/// Checks the depth of a value. It may be a serialized type of the program, which was not checked
/// before.
fn check_depth(value: &Payload) -> Result<&Payload, SessionError> {
    match value.depth() {
        depth if depth > MAX_DEPTH => Err(SessionError::TooDeep { depth }),
        _ => Ok(value),
    }
}

fn check_size(body: &Payload) -> Result<(), SessionError> {
    let size = body.as_str().len();
    if size > MAX_SESSION_BYTES {
        return Err(SessionError::TooLarge { size });
    }
    check_depth(body).map(|_| ())
}
