//! The HTTP API: translates, and decides nothing.

mod actions;
mod body;
mod bulk;
mod chat;
mod events;
mod follow;
mod gates;
mod metrics;
mod openapi;
mod operation;
mod problem;
mod reactions;
mod recorded;
mod runs;
mod sessions;
mod shape;
mod streams;
mod tail;
mod webhooks;
mod workflows;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{DefaultBodyLimit, FromRef, FromRequestParts, Request},
    http::{HeaderName, HeaderValue, StatusCode, header, request::Parts},
    middleware::{self, Next},
    response::Response,
};
use serde_json::{Value, json};
use tidegate::Engine;

use self::{body::MAX_BODY_BYTES, operation::Operation, problem::Problem};
use crate::ways::Ways;

/// The header that names the workspace.
const WORKSPACE: HeaderName = HeaderName::from_static("tidegate-workspace");

/// What requests are answered with.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    /// The ways into flows that the file gives.
    pub(crate) ways: Arc<Ways>,
}

/// Who asks, and in which workspace.
#[derive(Debug)]
pub(crate) struct Caller {
    engine: Engine,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller
where
    App: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let engine = App::from_ref(state).engine;
        let named = parts.headers.get(WORKSPACE).map(|name| name.to_str().unwrap_or_default());
        let known = engine.workspace();
        if let Some(name) = named.filter(|name| *name != known) {
            let detail = format!("there is no workspace `{name}` here; this server has `{known}`");
            return Err(Problem::not_found("no_workspace", detail));
        }
        Ok(Self { engine })
    }
}

/// Everything that can be asked. The router, the description and the matrix of who may do what
/// are made from it: what is not here cannot be reached.
fn operations() -> Vec<Operation> {
    let health = Operation::get("/health", "health", health)
        .says("Says that the server is there.")
        .open()
        .answers(200, "It is.", shape::object([("status", shape::string())]));
    [
        events::operations(),
        actions::operations(),
        chat::operations(),
        runs::operations(),
        follow::operations(),
        workflows::operations(),
        webhooks::operations(),
        streams::operations(),
        reactions::operations(),
        sessions::operations(),
        bulk::operations(),
        openapi::operations(),
        recorded::operations(),
        gates::operations(),
        tail::operations(),
        metrics::operations(),
        vec![health],
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The shapes that operations name.
fn shapes() -> Vec<(&'static str, Value)> {
    let shapes = [
        events::shapes(),
        runs::shapes(),
        bulk::shapes(),
        workflows::shapes(),
        streams::shapes(),
        reactions::shapes(),
        recorded::shapes(),
        gates::shapes(),
    ];
    shapes.into_iter().flatten().collect()
}

/// All routes.
pub(crate) fn router(app: App) -> Router {
    let routes = operations().into_iter().map(Operation::into_route);
    routes
        .fold(Router::new(), |router, (path, route)| router.route(path, route))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(Extension(tail::Tails::default()))
        .layer(middleware::from_fn(guard))
        .with_state(app)
}

async fn health() -> Json<Value> {
    Json(json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

async fn no_route(request: Request) -> Problem {
    let detail = format!("there is nothing at `{}`; see the HTTP reference", request.uri().path());
    Problem::not_found("no_route", detail)
}

async fn no_method(request: Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    let detail = format!("`{method}` is not for `{path}`");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_method", detail)
}

/// What every answer says to browsers.
async fn guard(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
