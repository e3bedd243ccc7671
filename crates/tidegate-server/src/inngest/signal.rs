//! Signals: data for the one step that waits for a name.

use axum::{Json, body::Bytes, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::{Refused, SdkCaller};

/// Body of a signal.
#[derive(Deserialize)]
struct Signal {
    signal: String,
    #[serde(default)]
    data: Value,
}

/// `POST /v1/signals`. The waiting step gets the name beside the data, so that a signal without data
/// differs from the end of the wait.
pub(super) async fn post(caller: SdkCaller, body: Bytes) -> Result<Json<Value>, Refused> {
    let Signal { signal, data } = serde_json::from_slice(&body)
        .map_err(|error| Refused::config(format!("the signal cannot be read: {error}")))?;
    let sent = json!({ "signal": signal, "data": data });
    match caller.engine.signal_by_name(&signal, sent).await? {
        Some(run) => Ok(Json(json!({ "data": { "run_id": run.to_string() } }))),
        None => {
            let message = format!("no run waits for the signal `{signal}`");
            Err(Refused::new(StatusCode::NOT_FOUND, message))
        }
    }
}
