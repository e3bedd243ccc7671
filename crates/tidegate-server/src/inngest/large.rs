//! Large state: memos and events that an app fetches because they do not fit into a call.

use axum::{
    extract::Path,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};

use super::{
    access::{Refused, SdkCaller, run_id},
    memo::{Memos, event_json},
};

/// `GET /v0/runs/{id}/actions`: the memos of a run.
pub(super) async fn actions(
    caller: SdkCaller,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let mut memos = Memos::default();
    for step in caller.engine.steps(run_id(&id)?).await? {
        memos.add(&step.id, step.kind, &step.result);
    }
    Ok(json(memos.to_json()))
}

/// `GET /v0/runs/{id}/batch`: the events of a run.
pub(super) async fn batch(caller: SdkCaller, Path(id): Path<String>) -> Result<Response, Refused> {
    let events = caller.engine.inputs(run_id(&id)?).await?;
    let events: Vec<String> = events.iter().map(event_json).collect();
    Ok(json(format!("[{}]", events.join(","))))
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}
