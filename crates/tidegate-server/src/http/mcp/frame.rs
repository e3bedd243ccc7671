//! The frame of the Model Context Protocol: JSON-RPC messages, and which revision is spoken.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

/// The revisions that are spoken, oldest first.
pub(super) const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// What a client asks, and wants to be answered.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) id: &'a RawValue,
    pub(super) method: String,
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    jsonrpc: String,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Reads a message; none if it wants no answer, as notifications do.
pub(super) fn read(text: &RawValue) -> Result<Option<Request<'_>>, Fault> {
    if !text.get().starts_with('{') {
        return Err(Fault::invalid("a message is an object"));
    }
    let message: Message<'_> = serde_json::from_str(text.get())
        .map_err(|error| Fault::invalid(format!("this is no message: {error}")))?;
    if message.jsonrpc != "2.0" {
        let said = format!("`jsonrpc` is `2.0`, got `{}`", message.jsonrpc);
        return Err(Fault::invalid(said));
    }
    if let Some(id) = message.id.filter(|id| !is_id(id)) {
        return Err(Fault::invalid(format!("`id` is a text or a whole number, got {id}")));
    }
    // An answer has no method. Nobody here asks clients anything, so that it is for nobody.
    Ok(match (message.id, message.method) {
        (Some(id), Some(method)) => Some(Request { id, method, params: message.params }),
        _ => None,
    })
}

/// Whether a value can name a request, or its progress.
pub(super) fn is_id(value: &RawValue) -> bool {
    value.get().starts_with('"') || value.get().parse::<i64>().is_ok()
}

impl<'a> Request<'a> {
    /// Reads what it is asked with; nothing is read as `{}`.
    pub(super) fn params<T: Deserialize<'a>>(&self) -> Result<T, Fault> {
        let text = self.params.map_or("{}", RawValue::get);
        if !text.starts_with('{') {
            return Err(Fault::params("`params` is an object"));
        }
        serde_json::from_str(text).map_err(|error| Fault::params(error.to_string()))
    }
}

/// Why a message cannot be answered as asked.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl Fault {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// It is no JSON.
    pub(super) fn parse(error: &serde_json::Error) -> Self {
        Self::new(-32700, format!("the body is not JSON: {error}"))
    }

    /// It is no message of the protocol.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    /// There is no such method.
    pub(super) fn method(method: &str) -> Self {
        Self::new(-32601, format!("there is no method `{method}`"))
    }

    /// What the method is asked with cannot be used.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// Something failed on this side.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    /// Nobody speaks this revision here.
    pub(super) fn revision(asked: &str) -> Self {
        let message = format!("MCP-Protocol-Version `{asked}` is not spoken here");
        let data = json!({ "supported": REVISIONS, "requested": asked });
        Self { data: Some(data), ..Self::invalid(message) }
    }

    /// For a body that holds nothing that could be answered.
    pub(super) fn refuse(self) -> Response {
        let answer = Answer { id: None, ..Answer::new(RawValue::NULL, Err(self)) };
        (StatusCode::BAD_REQUEST, Json(answer)).into_response()
    }
}

/// What a method came to.
pub(super) type Told = Result<Box<RawValue>, Fault>;

/// A result as it is sent.
pub(super) fn told(result: &impl Serialize) -> Box<RawValue> {
    to_raw_value(result).expect("a result can be written")
}

/// The answer to a request.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    jsonrpc: &'static str,
    id: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
}

impl Answer {
    pub(super) fn new(id: &RawValue, told: Told) -> Self {
        let (result, error) = match told {
            Ok(result) => (Some(result), None),
            Err(fault) => (None, Some(fault)),
        };
        Self { jsonrpc: "2.0", id: Some(id.to_owned()), result, error }
    }
}

/// Agrees on a revision: the client's if it is spoken here, else the newest that is.
pub(super) fn initialize(request: &Request<'_>) -> Told {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wanted {
        protocol_version: String,
    }
    let Wanted { protocol_version: wanted } = request.params()?;
    let newest = REVISIONS[REVISIONS.len() - 1];
    let spoken = REVISIONS.into_iter().find(|it| *it == wanted).unwrap_or(newest);
    Ok(told(&json!({
        "protocolVersion": spoken,
        "capabilities": { "tools": { "listChanged": false } },
        "serverInfo": { "name": "tidegate", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Each tool is a durable action: a call that has been taken goes on, \
            whether or not anybody waits for it. An error of `busy` names the request that is in \
            the way.",
    })))
}
