//! Messages of the Model Context Protocol: JSON-RPC framing and protocol revisions.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

/// Supported protocol revisions, oldest first.
pub(super) const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A request of a client.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) id: &'a RawValue,
    pub(super) method: String,
    params: Option<&'a RawValue>,
}

/// A message of a client.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "McpMessage")]
pub(super) struct Message<'a> {
    #[schemars(extend("enum" = ["2.0"]))]
    jsonrpc: String,
    #[serde(borrow)]
    #[schemars(extend("type" = ["string", "number", "null"]))]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Parses a message. Returns `None` if it needs no response, as a notification.
pub(super) fn read(text: &RawValue) -> Result<Option<Request<'_>>, Fault> {
    if !text.get().starts_with('{') {
        return Err(Fault::invalid("a message must be an object"));
    }
    let message: Message<'_> = serde_json::from_str(text.get())
        .map_err(|error| Fault::invalid(format!("invalid message: {error}")))?;
    if message.jsonrpc != "2.0" {
        let said = format!("`jsonrpc` must be `2.0`, got `{}`", message.jsonrpc);
        return Err(Fault::invalid(said));
    }
    if let Some(id) = message.id.filter(|id| !is_id(id)) {
        return Err(Fault::invalid(format!("`id` must be a string or a number, got {id}")));
    }
    // A response has no method. This server sends no requests to clients, so responses are ignored.
    Ok(match (message.id, message.method) {
        (Some(id), Some(method)) => Some(Request { id, method, params: message.params }),
        _ => None,
    })
}

/// Whether a value can be the id of a request or a progress token.
pub(super) fn is_id(value: &RawValue) -> bool {
    value.get().starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

impl<'a> Request<'a> {
    /// Parses the parameters of the request. Absent parameters count as `{}`.
    pub(super) fn params<T: Deserialize<'a>>(&self) -> Result<T, Fault> {
        let text = self.params.map_or("{}", RawValue::get);
        if !text.starts_with('{') {
            return Err(Fault::params("`params` must be an object"));
        }
        serde_json::from_str(text).map_err(|error| Fault::params(error.to_string()))
    }
}

/// A JSON-RPC error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "McpError")]
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

    /// Error: the body is not JSON.
    pub(super) fn parse(error: &serde_json::Error) -> Self {
        Self::new(-32700, format!("the request body is not JSON: {error}"))
    }

    /// Error: the body is not a message of the protocol.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    /// Error: the method is unknown.
    pub(super) fn method(method: &str) -> Self {
        Self::new(-32601, format!("there is no method `{method}`"))
    }

    /// Error: the parameters of the method are invalid.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// Error: the server failed.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    /// Error: the protocol revision is not supported.
    pub(super) fn revision(requested: &str) -> Self {
        let message = format!("MCP-Protocol-Version `{requested}` is not supported");
        let data = json!({ "supported": REVISIONS, "requested": requested });
        Self { data: Some(data), ..Self::invalid(message) }
    }

    /// Returns the HTTP response with this error, for a body that contains no valid request.
    pub(super) fn refuse(self) -> Response {
        let answer = Answer { id: None, ..Answer::new(RawValue::NULL, Err(self)) };
        (StatusCode::BAD_REQUEST, Json(answer)).into_response()
    }
}

/// The result of a method.
pub(super) type MethodResult = Result<Box<RawValue>, Fault>;

/// Serializes a result.
pub(super) fn to_raw(result: &impl Serialize) -> Box<RawValue> {
    to_raw_value(result).expect("a result can be serialized")
}

/// Response to one message, or the responses to a batch.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "describes the answers; each is sent as its own type")]
pub(super) enum Answers {
    One(Answer),
    Batch(Vec<Answer>),
}

/// Response to one request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "McpAnswer")]
pub(super) struct Answer {
    jsonrpc: &'static str,
    id: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
}

impl Answer {
    pub(super) fn new(id: &RawValue, result: MethodResult) -> Self {
        let (result, error) = match result {
            Ok(result) => (Some(result), None),
            Err(fault) => (None, Some(fault)),
        };
        Self { jsonrpc: "2.0", id: Some(id.to_owned()), result, error }
    }
}

/// Negotiates a protocol revision: that of the client if it is supported, otherwise the newest.
pub(super) fn initialize(request: &Request<'_>) -> MethodResult {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wanted {
        protocol_version: String,
    }
    let Wanted { protocol_version: wanted } = request.params()?;
    let newest = REVISIONS[REVISIONS.len() - 1];
    let spoken = REVISIONS.into_iter().find(|it| *it == wanted).unwrap_or(newest);
    Ok(to_raw(&json!({
        "protocolVersion": spoken,
        "capabilities": { "tools": { "listChanged": false } },
        "serverInfo": { "name": "tidegate", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Each tool is a durable action: an accepted call continues, whether or \
            not the client waits for it. The error `busy` names the request that blocks the \
            call.",
    })))
}
