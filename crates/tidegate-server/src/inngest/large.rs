//! Large state: memos and events that an app fetches because they do not fit into a call.

use axum::{
    extract::Path,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use tidegate_core::id::RunId;

use super::{
    access::{Refused, SdkCaller},
    memo::{Memos, event_json},
};

/// `GET /v0/runs/{id}/actions`: the memos of a run.
pub(super) async fn actions(
    caller: SdkCaller,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let mut memos = Memos::default();
    for step in caller.engine.steps(run(&id)?).await? {
        memos.add(&step.id, step.kind, &step.result);
    }
    Ok(json(memos.to_json()))
}

/// `GET /v0/runs/{id}/batch`: the events of a run.
pub(super) async fn batch(caller: SdkCaller, Path(id): Path<String>) -> Result<Response, Refused> {
    let events = caller.engine.inputs(run(&id)?).await?;
    let events: Vec<String> = events.iter().map(event_json).collect();
    Ok(json(format!("[{}]", events.join(","))))
}

fn run(id: &str) -> Result<RunId, Refused> {
    id.parse().map_err(|_| Refused::new(StatusCode::NOT_FOUND, format!("there is no run `{id}`")))
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
