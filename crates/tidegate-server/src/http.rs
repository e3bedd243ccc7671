//! The HTTP API. This layer converts requests to calls of the engine and decides nothing itself.

mod access;
mod actions;
mod body;
mod bulk;
mod chat;
mod console;
mod console_feed;
mod controls;
mod deferred;
mod doctor;
#[cfg(test)]
mod ending;
mod event_stream;
mod events;
mod events_query;
mod gates;
mod idempotency_key;
mod keys;
mod mcp;
mod metrics;
mod middleware;
mod openapi;
mod operation;
mod overrides;
mod pools;
mod problem;
mod reactions;
mod run_stream;
mod runs;
mod schedules;
mod schema;
mod sessions;
mod streams;
mod timeline;
mod underway;
mod unread;
mod webhooks;
pub(crate) mod workflows;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{Next, from_fn},
    response::Response,
    routing::get,
};
use schemars::JsonSchema;
use serde::Serialize;
use tidegate::Engine;

pub(crate) use self::{
    access::Access, body::MAX_BODY_BYTES, doctor::ReportView, middleware::in_time as read_body,
    problem::Problem, schema::DateTime, underway::Underway,
};
use self::{middleware::Caller, operation::Operation};
use crate::{
    ingress::Ingress,
    inngest::{self, Inngest},
};

/// State that all request handlers share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) access: Arc<Access>,
    /// Ingress definitions of the config file.
    pub(crate) ways: Arc<Ingress>,
    /// Keys and apps of Inngest's SDKs.
    pub(crate) inngest: Inngest,
    /// Requests in progress.
    pub(crate) requests: Underway,
    /// Whether this is `tidegate demo`: the console then offers a tour.
    pub(crate) demo: bool,
}

/// Returns all operations of the API. The router, the OpenAPI document and the access matrix are
/// built from this list: an operation that is not in it cannot be called. Endpoints of other
/// protocols have lists of their own.
fn operations() -> Vec<Operation> {
    let health = Operation::get("/health", "health", health)
        .says("Check that the server process is alive.")
        .open()
        .answers::<Health>(200, "The server is alive.");
    [
        events::operations(),
        deferred::operations(),
        actions::operations(),
        chat::operations(),
        runs::operations(),
        run_stream::operations(),
        workflows::operations(),
        pools::operations(),
        keys::operations(),
        webhooks::operations(),
        mcp::operations(),
        streams::operations(),
        reactions::operations(),
        sessions::operations(),
        bulk::operations(),
        overrides::operations(),
        openapi::operations(),
        events_query::operations(),
        gates::operations(),
        controls::operations(),
        event_stream::operations(),
        console_feed::operations(),
        timeline::operations(),
        doctor::operations(),
        metrics::operations(),
        schedules::operations(),
        vec![health],
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the router with all routes.
pub(crate) fn router(app: App) -> Router {
    let live = console_feed::Live::begin(&app.engine, app.access.workspaces());
    let routes = operations().into_iter().map(|operation| operation.into_route(&app));
    let routes = routes.chain(inngest::routes(&app));
    routes
        .fold(console::routes(), |router, (path, route)| router.route(path, route))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(Extension(event_stream::Tails::default()))
        .layer(Extension(doctor::Checkups::default()))
        .layer(Extension(live))
        .layer(from_fn(guard))
        .with_state(app)
}

/// Returns the router of a server that is still opening its store, which may take a while. All
/// requests get 503 `starting`, except the health check.
pub(crate) fn starting() -> Router {
    let starting = async || {
        let detail = "the server is starting: it is waiting for its store; retry later";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", detail).retry_after(1)
    };
    Router::new()
        .route("/health", get(async || alive(false)))
        .fallback(starting)
        .layer(from_fn(guard))
}

/// The state of a server process.
#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
    /// Whether this is `tidegate demo`.
    demo: bool,
}

async fn health(State(app): State<App>) -> Json<Health> {
    alive(app.demo)
}

fn alive(demo: bool) -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION"), demo })
}

async fn no_route(request: Request) -> Problem {
    let detail = format!("no route for `{}`; see the HTTP reference", request.uri().path());
    Problem::not_found("no_route", detail)
}

async fn no_method(request: Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    let detail = format!("method `{method}` is not allowed for `{path}`");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_method", detail)
}

/// Adds the security headers to every response, and reads the unread part of the request body.
async fn guard(request: Request, next: Next) -> Response {
    let (request, rest) = unread::watch(request);
    let mut response = next.run(request).await;
    rest.finish(&mut response).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}
