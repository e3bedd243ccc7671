//! Opcodes: the operations with which an app answers a call.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use tidegate::{MAX_VALUE_BYTES, StepError};
use tidegate_core::{json::Payload, run::record::Until, time::Timestamp};

use super::{
    fault::{Again, step_error, text_of},
    moment::until,
    name::step_name,
};

/// An operation of an app.
#[derive(Debug)]
pub(super) struct Operation {
    /// Id of the engine's step, see [`step_name`].
    pub(super) step: String,
    pub(super) opcode: Opcode,
    /// Whether the end of this member alone continues the function: its group is a race.
    pub(super) race: bool,
}

/// Kind of an operation.
#[derive(Debug)]
pub(super) enum Opcode {
    /// The step has run and returned this.
    Ran(Payload),
    /// An attempt of the step has failed.
    Threw(StepError),
    /// The step has failed for good.
    Failed(StepError),
    /// The step is to be run by a call of its own.
    Planned,
    Sleep(Until),
    Event(EventWait),
    Invoke(Invocation),
    Signal(SignalWait),
    Fetch(Box<Fetch>),
    /// The function has returned this.
    Complete(Payload),
    /// The app asks to be called again.
    Discover,
}

/// Wait for an event.
#[derive(Debug, PartialEq)]
pub(super) struct EventWait {
    pub(super) name: String,
    /// Expression over `event`, the run's own, and `async`, the one waited for.
    pub(super) filter: Option<String>,
    pub(super) until: Option<Until>,
}

/// Call of another function.
#[derive(Debug, PartialEq)]
pub(super) struct Invocation {
    /// Id of the function, with its app's prefix.
    pub(super) function: String,
    pub(super) data: Payload,
    pub(super) until: Option<Until>,
}

/// Wait for a signal.
#[derive(Debug, PartialEq)]
pub(super) struct SignalWait {
    pub(super) name: String,
    /// Whether this wait takes the place of another one for the same signal.
    pub(super) replaces: bool,
    pub(super) until: Option<Until>,
}

/// HTTP request that the server makes for the app.
pub(super) struct Fetch {
    pub(super) url: String,
    pub(super) method: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
    /// The request is one to a language model: the answer's body is the step's value.
    pub(super) model: bool,
}

impl std::fmt::Debug for Fetch {
    /// Headers, body and URL may have secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetch").field("method", &self.method).finish_non_exhaustive()
    }
}

/// An operation as it is sent. SDKs send more, which is ignored.
#[derive(Deserialize)]
struct Sent<'a> {
    id: String,
    op: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "displayName")]
    display_name: Option<String>,
    #[serde(default)]
    userland: Option<Userland>,
    #[serde(borrow, default)]
    opts: Option<Options<'a>>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The step's id in the user's code.
#[derive(Deserialize)]
struct Userland {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    index: Option<u32>,
}

/// Options of all operations. Steps of users may have any, of which only these are read.
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Options<'a>(#[serde(borrow)] BTreeMap<String, &'a RawValue>);

impl Options<'_> {
    /// Returns a text; `None` if it is absent, null, or something else.
    fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    fn json(&self, name: &str) -> &str {
        text_of(self.0.get(name).copied())
    }
}

/// Reads the list of operations in the body of an answer.
pub(super) fn read(body: &str, again: Again, now: Timestamp) -> Result<Vec<Operation>, StepError> {
    let sent: Vec<Sent<'_>> = serde_json::from_str(body)
        .map_err(|error| bad(format!("the answer 206 is not a list of operations: {error}")))?;
    sent.into_iter().map(|sent| operation(sent, again, now)).collect()
}

/// Returns the error of an answer that breaks the protocol: the attempt has failed.
pub(super) fn bad(message: String) -> StepError {
    StepError::coded("BadAnswer", message)
}

fn operation(sent: Sent<'_>, again: Again, now: Timestamp) -> Result<Operation, StepError> {
    let index = sent.userland.as_ref().and_then(|userland| userland.index);
    let own = sent.userland.as_ref().and_then(|userland| userland.id.as_deref());
    let step = step_name(&sent.id, own.or(sent.display_name.as_deref()), index);
    let options = sent.opts.as_ref();
    let mode = options.and_then(|it| it.text("parallelMode"));
    // The SDK for Go writes `Race`.
    let race = mode.is_some_and(|mode| mode.eq_ignore_ascii_case("race"));
    let wrong = |reason: String| bad(format!("operation {} of step `{step}`: {reason}", sent.op));
    let opcode = opcode(&sent, again, now).map_err(|reason| match reason {
        Wrong::Field(reason) => wrong(reason),
        Wrong::Opcode => {
            let message = format!(
                "the app answered with the opcode `{}` (step `{step}`), which this server does \
                 not know",
                sent.op
            );
            StepError::coded("UnknownOpcode", message).fatal()
        }
    })?;
    Ok(Operation { step, opcode, race })
}

/// Reason why an operation is refused.
enum Wrong {
    Opcode,
    Field(String),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self::Field(reason)
    }
}

fn opcode(sent: &Sent<'_>, again: Again, now: Timestamp) -> Result<Opcode, Wrong> {
    let none = Options::default();
    let options = sent.opts.as_ref().unwrap_or(&none);
    // A timeout that is absent means none.
    let timeout = || options.text("timeout").map(|text| until(&text, now)).transpose();
    let needed = |name: &str, value: Option<String>| {
        value.filter(|it| !it.is_empty()).ok_or_else(|| format!("`{name}` is missing"))
    };
    let name = || sent.name.clone();
    Ok(match sent.op.as_str() {
        "StepRun" | "Step" if sent.error.is_none() => Opcode::Ran(value(sent.data)?),
        "StepRun" | "Step" | "StepFailed" => Opcode::Failed(failure(sent).fatal()),
        "StepError" if again.never => Opcode::Failed(failure(sent).fatal()),
        "StepError" => Opcode::Threw(again.apply(failure(sent))),
        "StepPlanned" => Opcode::Planned,
        "Sleep" => {
            let end = options.text("duration").or_else(name);
            Opcode::Sleep(until(&end.ok_or("the duration is missing".to_owned())?, now)?)
        }
        "WaitForEvent" => Opcode::Event(EventWait {
            name: needed("event", options.text("event").or_else(name))?,
            filter: options.text("if").filter(|filter| !filter.trim().is_empty()),
            until: timeout()?,
        }),
        "InvokeFunction" => Opcode::Invoke(Invocation {
            function: needed("function_id", options.text("function_id"))?,
            data: data(options.json("payload"))?,
            until: timeout()?,
        }),
        "WaitForSignal" => Opcode::Signal(SignalWait {
            name: needed("signal", options.text("signal").or_else(name))?,
            replaces: options.text("conflict").is_some_and(|conflict| conflict == "replace"),
            until: timeout()?,
        }),
        "Gateway" => Opcode::Fetch(Box::new(fetch(options)?)),
        "AIGateway" => Opcode::Fetch(Box::new(model_call(options)?)),
        "RunComplete" => Opcode::Complete(value(sent.data)?),
        "DiscoveryRequest" => Opcode::Discover,
        _ => return Err(Wrong::Opcode),
    })
}

/// Reads a value; null if it is absent.
fn value(data: Option<&RawValue>) -> Result<Payload, String> {
    Payload::parse(text_of(data).as_bytes(), MAX_VALUE_BYTES)
        .map_err(|error| format!("the value cannot be kept: {error}"))
}

fn failure(sent: &Sent<'_>) -> StepError {
    step_error(text_of(sent.error))
}

/// Returns the data of the event with which another function is called.
fn data(payload: &str) -> Result<Payload, String> {
    let options: Option<Options<'_>> =
        serde_json::from_str(payload).map_err(|error| format!("`payload`: {error}"))?;
    let data = options.as_ref().map_or("null", |payload| payload.json("data"));
    let data = if data == "null" { "{}" } else { data };
    Payload::parse(data.as_bytes(), MAX_VALUE_BYTES)
        .map_err(|error| format!("the data cannot be kept: {error}"))
}

fn fetch(options: &Options<'_>) -> Result<Fetch, String> {
    let headers = serde_json::from_str::<Option<BTreeMap<String, String>>>(options.json("headers"));
    let body = match options.json("body") {
        "null" => String::new(),
        // A body of another kind is sent as JSON.
        json => serde_json::from_str(json).unwrap_or_else(|_| json.to_owned()),
    };
    Ok(Fetch {
        url: options.text("url").ok_or("`url` is missing")?,
        method: options.text("method").filter(|it| !it.is_empty()).unwrap_or("GET".to_owned()),
        headers: headers.map_err(|error| format!("`headers`: {error}"))?.unwrap_or_default(),
        body,
        model: false,
    })
}

/// Headers of the two ways to send the key of a language model. In the third (`gemini`), the key is
/// in the URL.
fn model_call(options: &Options<'_>) -> Result<Fetch, String> {
    let mut fetch = Fetch { method: "POST".to_owned(), model: true, ..fetch(options)? };
    fetch.headers.entry("content-type".to_owned()).or_insert("application/json".to_owned());
    let Some(key) = options.text("auth_key").filter(|key| !key.is_empty()) else {
        return Ok(fetch);
    };
    match options.text("format").as_deref() {
        Some("gemini") => {}
        Some("anthropic") => {
            fetch.headers.entry("x-api-key".to_owned()).or_insert(key);
            let version = fetch.headers.entry("anthropic-version".to_owned());
            version.or_insert("2023-06-01".to_owned());
        }
        Some(_) | None => {
            fetch.headers.entry("authorization".to_owned()).or_insert(format!("Bearer {key}"));
        }
    }
    Ok(fetch)
}

#[cfg(test)]
mod tests;
