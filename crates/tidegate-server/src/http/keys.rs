//! `/keys`: the API keys of the caller's workspace.

use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_core::{access::AccessCommand, time::Timestamp};

use super::{
    App, Caller,
    body::{At, Body},
    idempotency_key::NotReplayable,
    operation::Operation,
    problem::Problem,
    schema::DateTime,
};
use crate::keys::{self, KeyView, MAX_NAME, Wanted};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/keys", "listKeys", list)
            .says("List the API keys of the workspace, including expired and revoked ones.")
            .full()
            .answers::<KeyList>(200, "All keys."),
        Operation::post("/keys", "makeKey", make)
            .logs_body()
            .says("Create an API key. Its text is shown only once.")
            .body::<KeyBody>()
            .answers::<NewKey>(201, "The key."),
        Operation::delete("/keys/{id}", "revokeKey", revoke)
            .says("Revoke an API key permanently.")
            .answers::<Revoked>(200, "The key is revoked."),
    ]
}

/// All keys of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Keys")]
struct KeyList {
    keys: Vec<KeyView>,
    /// Always null: all keys are on one page.
    next: Option<String>,
}

/// A created key.
#[derive(Debug, Serialize, JsonSchema)]
struct NewKey {
    /// The text of the key. The server does not store it.
    key: String,
    #[serde(flatten)]
    view: KeyView,
}

/// A revoked key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RevokedKey")]
struct Revoked {
    id: String,
    revoked: bool,
}

async fn list(caller: Caller) -> Result<Json<KeyList>, Problem> {
    let engine = &caller.engine;
    let (mut keys, _) = keys::all(&**engine.store()).await?;
    keys.retain(|key| *key.ws == *engine.workspace());
    keys.sort_by_key(|key| std::cmp::Reverse(key.made_at));
    Ok(Json(KeyList { keys: keys.iter().map(KeyView::from).collect(), next: None }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyBody {
    #[schemars(length(min = 1, max = MAX_NAME))]
    name: String,
    read_only: Option<bool>,
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<String>,
}

async fn make(State(app): State<App>, caller: Caller, body: Body) -> Result<Response, Problem> {
    let KeyBody { name, read_only, expires_at } = body.required()?;
    keys::check_name(&name).map_err(|error| Problem::invalid("bad_name", error.to_string()))?;
    let expires_at = expires_at.map(|at| {
        let bad = || format!("`expiresAt` must be a time like 2026-11-16T12:00:00Z, got `{at}`");
        Timestamp::parse_rfc3339(&at).ok_or_else(|| Problem::invalid("bad_time", bad()))
    });
    let wanted = Wanted {
        ws: caller.engine.workspace().into(),
        name,
        read_only: read_only.unwrap_or(false),
        expires_at: expires_at.transpose()?,
    };
    let (text, key) =
        keys::make(&**caller.engine.store(), wanted, caller.engine.audit_entry()).await?;
    app.access.forget_keys().await;
    let key = NewKey { key: text, view: KeyView::from(&key) };
    Ok((StatusCode::CREATED, Extension(NotReplayable), Json(key)).into_response())
}

async fn revoke(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Json<Revoked>, Problem> {
    let ws = caller.engine.workspace().into();
    let revoke = AccessCommand::Revoke { ws, id: id.clone() };
    keys::change(&**caller.engine.store(), revoke, caller.engine.audit_entry()).await?;
    app.access.forget_keys().await;
    Ok(Json(Revoked { id, revoked: true }))
}
