//! One HTTP call of an app, and the meaning of its answer.

use std::{collections::BTreeMap, time::Duration};

use axum::body::Bytes;
use reqwest::{
    Method, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue, LOCATION},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tidegate::{MAX_VALUE_BYTES, StepError};
use tidegate_core::{definition::MAX_CALL_TIMEOUT_MS, json::Payload, time::Timestamp};
use tidegate_store::{Clock as _, SystemClock};

use super::{
    fault::{Again, AppError, quote, step_error},
    keys::{Keys, SIGNATURE},
    opcode::{self, Operation, bad},
};
use crate::call::{Calls, Exchange, Exchanged, asked_delay};

/// Header that every answer of an SDK has.
pub(super) const SDK: &str = "x-inngest-sdk";

/// Maximum size of an answer: a value of the maximum size, and as much beside it.
const MAX_ANSWER_BYTES: usize = 2 * MAX_VALUE_BYTES;

/// Maximum time without a byte of the answer, unless the definition has a `callTimeoutMs`: code in an
/// app may run long before it answers.
const SILENCE: Duration = Duration::from_millis(MAX_CALL_TIMEOUT_MS);

/// Shortest delay that an app can ask for.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Client that calls apps.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) calls: Calls,
    pub(crate) keys: Keys,
}

/// A call of an app.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    /// URL of the app, with the function's id.
    pub(super) url: &'a str,
    pub(super) run: &'a str,
    /// The SDK's id of the step to run; none to discover.
    pub(super) step: Option<&'a str>,
    pub(super) version: i32,
    /// Number of the lease: a higher one has taken over the run.
    pub(super) generation: &'a str,
    /// Id of this call.
    pub(super) request: String,
    pub(super) body: Bytes,
    pub(super) timeout_ms: Option<u64>,
    /// Whether the function may be retried.
    pub(super) repeats: bool,
}

/// What an app has answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// The function has returned this.
    Returned(Payload),
    Operations(Vec<Operation>),
}

/// An answer, with what the SDK says of itself.
#[derive(Debug)]
pub(super) struct Answered {
    /// Version of the protocol that the SDK has chosen.
    pub(super) version: Option<i32>,
    /// Whether the SDK can record steps while it runs.
    pub(super) checkpoints: bool,
    /// An error is one of the function, outside of its steps, or of the call.
    pub(super) answer: Result<Answer, StepError>,
}

impl Client {
    /// Calls an app.
    pub(super) async fn call(&self, call: Call<'_>) -> Answered {
        match self.exchange(call).await {
            Ok(exchanged) => read(&self.keys, &exchanged, SystemClock.now()),
            // A call that is cut off may have recorded steps before.
            Err(error) => Answered { version: None, checkpoints: true, answer: Err(error) },
        }
    }

    async fn exchange(&self, call: Call<'_>) -> Result<Exchanged, StepError> {
        let Call { url, run, step, version, generation, request, body, timeout_ms, repeats } = call;
        let step = step.unwrap_or(DISCOVER);
        let mut url = self.calls.vetted(url)?;
        set_step(&mut url, step);
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        set("content-type", "application/json");
        set("x-inngest-server-kind", self.keys.kind());
        set("x-run-id", run);
        set("x-inngest-step-id", step);
        set("x-inngest-req-version", &version.to_string());
        set("x-inngest-generation-id", generation);
        set("x-request-id", &request);
        let signature =
            self.keys.sign(&body, seconds(SystemClock.now())).map_err(StepError::new)?;
        if let Some(signature) = signature {
            set(SIGNATURE, &signature);
        }
        let silence = timeout_ms.map_or(SILENCE, Duration::from_millis);
        let (method, max_bytes) = (Method::POST, MAX_ANSWER_BYTES);
        let exchange = Exchange { method, url, headers, body, silence, max_bytes, repeats };
        self.calls.exchange(exchange).await
    }
}

/// Step id of a call that runs the function to its next operation.
const DISCOVER: &str = "step";

/// Sets the query field `stepId`. The rest of the URL is the app's.
fn set_step(url: &mut reqwest::Url, step: &str) {
    let step = format!("stepId={step}");
    let fields = url.query().unwrap_or_default().split('&');
    let others = fields.filter(|field| !field.is_empty() && !field.starts_with("stepId="));
    let query = others.chain([step.as_str()]).collect::<Vec<_>>().join("&");
    url.set_query(Some(&query));
}

fn seconds(now: Timestamp) -> i64 {
    now.micros() / 1_000_000
}

/// Reads an answer.
fn read(keys: &Keys, exchanged: &Exchanged, now: Timestamp) -> Answered {
    let Exchanged { status, headers, body } = exchanged;
    if *status == StatusCode::CREATED {
        return match streamed(headers, body) {
            Ok(inner) => read(keys, &inner, now),
            Err(error) => answered(headers, Err(error)),
        };
    }
    // Not every SDK signs its answers.
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok());
    let signed = signature.map_or(Ok(()), |it| keys.verify(it, body, seconds(now)));
    let body = String::from_utf8_lossy(body);
    answered(
        headers,
        match signed {
            Ok(()) => answer(*status, headers, &body, now),
            Err(reason) => Err(bad(format!("the answer of the app is wrongly signed: {reason}"))),
        },
    )
}

fn answered(headers: &HeaderMap, answer: Result<Answer, StepError>) -> Answered {
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let version = header("x-inngest-req-version").and_then(|version| version.parse().ok());
    // Version 1 and Python have no checkpoints.
    let python = header(SDK).is_some_and(|sdk| sdk.starts_with("inngest-py"));
    Answered { version, checkpoints: version != Some(1) && !python, answer }
}

/// Last part of a streamed answer: the answer itself.
#[derive(Deserialize)]
struct Streamed<'a> {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// Unpacks a streamed answer: blanks, which keep the connection open, then the answer as JSON.
fn streamed(outer: &HeaderMap, body: &[u8]) -> Result<Exchanged, StepError> {
    let Streamed { status, headers, body } = serde_json::from_slice(body.trim_ascii())
        .map_err(|error| bad(format!("the streamed answer 201 is incomplete: {error}")))?;
    let mut all = outer.clone();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            all.insert(name, value);
        }
    }
    let status = StatusCode::from_u16(status).ok().filter(|status| *status != StatusCode::CREATED);
    let status =
        status.ok_or_else(|| bad("the streamed answer 201 has no status of its own".into()))?;
    let body = body.map_or("", RawValue::get);
    // The body is a text that has JSON in it, or the JSON itself.
    let body = serde_json::from_str::<String>(body).unwrap_or_else(|_| body.to_owned());
    Ok(Exchanged { status, headers: all, body: body.into_bytes() })
}

fn answer(
    status: StatusCode,
    headers: &HeaderMap,
    body: &str,
    now: Timestamp,
) -> Result<Answer, StepError> {
    let never = headers.get("x-inngest-no-retry").is_some_and(|value| value == "true");
    let after = asked_delay(headers, now).map(|delay| delay.max(MIN_RETRY_AFTER));
    let again = Again { never, after };
    if status.is_redirection() && headers.contains_key(LOCATION) {
        return Err(bad(format!(
            "the app answered {status} to another URL; calls follow no redirects: register the \
             app at its final URL"
        )));
    }
    if !headers.contains_key(SDK) {
        let message = format!(
            "the answer {status} has no header `{SDK}`: no Inngest SDK is at the app's URL: {}",
            quote(body)
        );
        return Err(Again { never: false, ..again }.apply(bad(message)));
    }
    match status {
        StatusCode::OK => returned(body).map(Answer::Returned),
        StatusCode::PARTIAL_CONTENT => opcode::read(body, again, now).map(Answer::Operations),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(bad(format!(
            "the app refused the call ({status}); it must have the signing key of this server: {}",
            quote(body)
        ))),
        // A newer call has taken over; this one's failure means nothing.
        _ if AppError::read(body).is_stale() => Err(step_error(body)),
        _ => Err(again.apply(step_error(body))),
    }
}

/// Reads the value of a function.
fn returned(body: &str) -> Result<Payload, StepError> {
    let body = if body.trim().is_empty() { "null" } else { body };
    Payload::parse(body.as_bytes(), MAX_VALUE_BYTES)
        .map_err(|error| bad(format!("the value of the function cannot be kept: {error}")))
}

/// Whether a body is one that some SDKs answer when a call names a step that the code no longer has.
pub(super) fn is_nothing(value: &Payload) -> bool {
    matches!(value.as_str().trim(), "null" | "[]")
}

#[cfg(test)]
mod tests;
