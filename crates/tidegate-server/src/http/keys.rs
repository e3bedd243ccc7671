//! `/keys`: the API keys of the caller's workspace.

use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::{access::AccessCommand, time::Timestamp};

use super::{
    App, Caller,
    body::{At, Body},
    idempotency_key::NotReplayable,
    operation::Operation,
    problem::Problem,
    schema::{closed, flag, nullable, object, of, page, string, text, time, word},
};
use crate::keys::{self, MAX_NAME, Wanted};

/// The operations of this file.
pub(super) fn operations() -> Vec<Operation> {
    let most = u32::try_from(MAX_NAME).unwrap_or(u32::MAX);
    let wanted = closed([
        ("name", text(1, most)),
        ("readOnly?", nullable(flag())),
        ("expiresAt?", nullable(time())),
    ]);
    vec![
        Operation::get("/keys", "listKeys", list)
            .says("List the API keys of the workspace, including expired and revoked ones.")
            .full()
            .answers(200, "All keys.", page("keys", of("Key"))),
        Operation::post("/keys", "makeKey", make)
            .says("Create an API key. Its text is shown only once.")
            .body(wanted)
            .answers(201, "The key.", object([("key", string()), ("id", string())])),
        Operation::delete("/keys/{id}", "revokeKey", revoke)
            .says("Revoke an API key permanently.")
            .answers(200, "The key is revoked.", object([("id", string())])),
    ]
}

pub(super) fn shapes() -> Vec<(&'static str, Value)> {
    let key = [
        ("id", string()),
        ("name", string()),
        ("workspace", string()),
        ("access", word(&["full", "read"])),
        ("madeAt", time()),
        ("expiresAt", nullable(time())),
        ("lastUsedAt", nullable(time())),
        ("revokedAt", nullable(time())),
    ];
    vec![("Key", object(key))]
}

async fn list(caller: Caller) -> Result<Json<Value>, Problem> {
    let engine = &caller.engine;
    let (mut keys, _) = keys::all(&**engine.store()).await?;
    keys.retain(|key| *key.ws == *engine.workspace());
    keys.sort_by_key(|key| std::cmp::Reverse(key.made_at));
    let told: Vec<_> = keys.iter().map(keys::view).collect();
    Ok(Json(json!({ "keys": told, "next": null })))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyBody {
    name: String,
    read_only: Option<bool>,
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
    let (text, key) = keys::make(&**caller.engine.store(), wanted).await?;
    app.access.forget_keys().await;
    let mut told = keys::view(&key);
    told["key"] = text.into();
    Ok((StatusCode::CREATED, Extension(NotReplayable), Json(told)).into_response())
}

async fn revoke(
    State(app): State<App>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Json<Value>, Problem> {
    let ws = caller.engine.workspace().into();
    let revoke = AccessCommand::Revoke { ws, id: id.clone() };
    keys::change(&**caller.engine.store(), revoke).await?;
    app.access.forget_keys().await;
    Ok(Json(json!({ "id": id, "revoked": true })))
}
