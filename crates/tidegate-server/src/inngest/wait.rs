//! Operations that the server carries out for an app: sleeps, waits, calls of functions, requests.

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use axum::body::Bytes;
use reqwest::{
    Method,
    header::{
        CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
    },
};
use serde_json::{Value, json, value::RawValue};
use tidegate::{MAX_VALUE_BYTES, NewRecord, Result, StepError, StepKind, Wait, WorkflowRef};
use tidegate_core::{definition::Definition, json::Payload, run::record::Until};
use tidegate_store::{Clock as _, SystemClock};

use super::{
    execute::{Execution, Turn, failed},
    fault::quote,
    opcode::{EventWait, Fetch, Invocation, Opcode, SignalWait},
    remote_of,
};
use crate::call::{Exchange, Exchanged, asked_delay};

/// Maximum time without a byte of the response to a request for an app.
const SILENCE: Duration = Duration::from_secs(5 * 60);

impl Execution {
    /// Begins an operation that the server carries out.
    pub(super) fn wait(
        self: Arc<Self>,
        step: String,
        opcode: Opcode,
    ) -> Pin<Box<dyn Future<Output = Turn> + Send>> {
        match opcode {
            Opcode::Sleep(until) => Box::pin(self.sleep(step, until)),
            Opcode::Event(wait) => Box::pin(self.wait_for_event(step, wait)),
            Opcode::Signal(wait) => Box::pin(self.wait_for_signal(step, wait)),
            Opcode::Invoke(call) => Box::pin(self.invoke(step, call)),
            Opcode::Fetch(fetch) => Box::pin(self.fetch(step, *fetch)),
            Opcode::Ran(_)
            | Opcode::Threw(_)
            | Opcode::Failed(_)
            | Opcode::Planned
            | Opcode::Complete(_)
            | Opcode::Discover => unreachable!("these are no operations of the server"),
        }
    }

    /// Ends a wait. Its answer is recorded already; the error of one that could not begin is not.
    async fn ended(self: Arc<Self>, id: String, kind: StepKind, result: Result<Payload>) -> Turn {
        match result {
            Ok(value) => Turn::Recorded(vec![NewRecord { id, kind, result: Ok(value) }]),
            Err(error) => self.record(vec![failed(id, kind, &error)]).await,
        }
    }

    async fn sleep(self: Arc<Self>, step: String, until: Until) -> Turn {
        let slept = match until {
            Until::At(at) => self.ctx.sleep_until(&step, at),
            Until::In(ms) => self.ctx.sleep(&step, Duration::from_millis(ms)),
        };
        let slept = self.ctx.timed(slept).await;
        self.ended(step, StepKind::Sleep, slept.map(|()| Payload::null())).await
    }

    async fn wait_for_event(self: Arc<Self>, step: String, wait: EventWait) -> Turn {
        let EventWait { name, filter, until } = wait;
        let mut waiting = self.ctx.wait_for_event::<Box<RawValue>>(&step, name).whole_event();
        if let Some(filter) = filter {
            waiting = waiting.only_if_lenient(&filter);
        }
        let event = self.ctx.timed(ending(waiting, until)).await;
        self.ended(step, StepKind::Event, event.and_then(payload)).await
    }

    async fn wait_for_signal(self: Arc<Self>, step: String, wait: SignalWait) -> Turn {
        let SignalWait { name, replaces, until } = wait;
        let mut waiting = self.ctx.wait_for_signal_by_name::<Box<RawValue>>(&step, name);
        if replaces {
            waiting = waiting.replacing();
        }
        let signal = self.ctx.timed(ending(waiting, until)).await;
        self.ended(step, StepKind::Signal, signal.and_then(payload)).await
    }

    async fn invoke(self: Arc<Self>, step: String, call: Invocation) -> Turn {
        let Invocation { function, data, until } = call;
        let target = self.target(&function);
        let data = serde_json::from_str::<Box<RawValue>>(data.as_str());
        let data = data.expect("a payload is JSON");
        let waiting = self.ctx.invoke(&step, &target, data);
        let value = self.ctx.timed(ending(waiting, until)).await;
        self.ended(step, StepKind::Invoke, value.and_then(|value| payload(Some(value)))).await
    }

    /// Returns the workflow of a function. An unknown function is left to the engine, whose refusal
    /// is the step's error.
    fn target(&self, function: &str) -> WorkflowRef<Box<RawValue>, Box<RawValue>> {
        let is_named = |definition: &Definition| {
            remote_of(definition)
                .is_some_and(|it| it.settings.get("functionId") == Some(&json!(function)))
        };
        match self.ctx.find_definition(is_named) {
            Some(definition) => WorkflowRef::named(&definition.name).app(&definition.app),
            None => WorkflowRef::named(function),
        }
    }

    /// Makes a request for the app, with the attempts of a step. A failure of the network, and a
    /// refusal that may pass, is an attempt that has failed.
    async fn fetch(self: Arc<Self>, step: String, fetch: Fetch) -> Turn {
        loop {
            self.ctx.resume_backoff(&step).await;
            let error = match self.ctx.busy(self.response_to(&fetch)).await {
                Ok(value) => {
                    let record = NewRecord { id: step, kind: StepKind::Run, result: Ok(value) };
                    return self.record(vec![record]).await;
                }
                Err(error) => error,
            };
            if let Err(error) = self.ctx.backoff(&step, error).await {
                return self.record(vec![failed(step, StepKind::Run, &error)]).await;
            }
        }
    }

    /// Makes a request once, and returns the value of its step.
    async fn response_to(&self, fetch: &Fetch) -> Result<Payload> {
        let exchanged = self.client.calls.exchange(self.exchange(fetch)?).await?;
        let value = if fetch.model { model_answer(&exchanged)? } else { response(&exchanged) };
        Ok(Payload::parse(value.to_string().as_bytes(), MAX_VALUE_BYTES)?)
    }

    fn exchange(&self, fetch: &Fetch) -> Result<Exchange> {
        let Fetch { url, method, headers, body, .. } = fetch;
        let url = self.client.calls.vetted(url)?;
        let method = method.parse::<Method>().map_err(|error| StepError::from(error).fatal())?;
        let headers = headers.iter().filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
        });
        let headers: HeaderMap = headers.filter(|(name, _)| !OWN.contains(name)).collect();
        let (body, silence) = (Bytes::from(body.clone()), SILENCE);
        let (max_bytes, repeats) = (MAX_VALUE_BYTES, false);
        Ok(Exchange { method, url, headers, body, silence, max_bytes, repeats })
    }
}

/// Adds the end of a wait, if it has one.
fn ending<T>(wait: Wait<T>, until: Option<Until>) -> Wait<T> {
    match until {
        Some(until) => wait.until(until),
        None => wait,
    }
}

/// Returns an answer as it is recorded; null after the time-out.
fn payload(answer: Option<Box<RawValue>>) -> Result<Payload> {
    let text = answer.as_ref().map_or("null", |answer| answer.get());
    Ok(Payload::parse(text.as_bytes(), usize::MAX)?)
}

/// Headers of a request that belong to the connection, and not to the app.
const OWN: [HeaderName; 4] = [HOST, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING];

/// Returns a response as the value of the step, whatever its status is.
fn response(exchanged: &Exchanged) -> Value {
    let Exchanged { status, headers, body } = exchanged;
    let headers: BTreeMap<&str, &str> = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect();
    let body = String::from_utf8_lossy(body);
    json!({ "status_code": status.as_u16(), "headers": headers, "body": body })
}

/// Returns the answer of a language model.
fn model_answer(exchanged: &Exchanged) -> Result<Value> {
    let Exchanged { status, headers, body } = exchanged;
    let text = String::from_utf8_lossy(body);
    if status.is_success() {
        return serde_json::from_str(&text).map_err(|error| {
            StepError::coded("BadAnswer", format!("the answer of the model is not JSON: {error}"))
        });
    }
    let message = format!("the model answered {status}: {}", quote(&text));
    let error = StepError::coded("ModelRefused", message);
    let passes = status.is_server_error() || [408, 409, 429].contains(&status.as_u16());
    Err(match asked_delay(headers, SystemClock.now()) {
        _ if !passes => error.fatal(),
        Some(delay) => error.retry_after(delay),
        None => error,
    })
}
