//! The endpoints of the SDK protocol: their list, their router, and who may call them.
//!
//! They are not operations of Tidegate's API: the protocol describes them, not the OpenAPI document.
//! An endpoint that is not in the list cannot be called, and each row says which key it needs.

use std::time::Duration;

use axum::{
    Json, RequestPartsExt as _,
    body::Bytes,
    extract::{FromRequestParts, Path, Request, State},
    handler::Handler,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use serde_json::json;
use tidegate::Engine;
use tidegate_core::id::RunId;

use super::{api, checkpoint, events, large, register, signal};
use crate::http::{App, Problem, read_body};

/// Timeout of a request, as for Tidegate's own operations.
const DEADLINE: Duration = Duration::from_secs(90);

/// Header that tells an SDK whether keys are needed.
pub(crate) const SERVER_KIND: HeaderName = HeaderName::from_static("x-inngest-server-kind");

/// Header that names the environment, which is a workspace.
const ENVIRONMENT: HeaderName = HeaderName::from_static("x-inngest-env");

/// Key that an endpoint needs, if the server has keys. Without keys all endpoints are for programs
/// on the same machine only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// No key.
    Nothing,
    /// An event key, as the last part of the path.
    EventKey,
    /// The digest of a signing key.
    SigningKey,
    /// As before; or the key itself, which the SDK for Go sends with checkpoints.
    PlainSigningKey,
}

/// One endpoint: method, path, key and handler.
type Endpoint = (Method, &'static str, Needs, MethodRouter<App>);

fn endpoint<H: Handler<T, App>, T: 'static>(
    method: Method,
    path: &'static str,
    needs: Needs,
    handler: H,
) -> Endpoint {
    let filter = MethodFilter::try_from(method.clone());
    (method, path, needs, on(filter.expect("the methods of the list are known"), handler))
}

/// All endpoints.
fn endpoints() -> Vec<Endpoint> {
    let (get, post) = (|| Method::GET, || Method::POST);
    vec![
        endpoint(post(), "/fn/register", Needs::SigningKey, register::post),
        endpoint(post(), "/e/{key}", Needs::EventKey, events::post),
        endpoint(Method::OPTIONS, "/e/{key}", Needs::Nothing, events::preflight),
        endpoint(post(), "/v1/checkpoint/{run}/async", Needs::PlainSigningKey, checkpoint::post),
        endpoint(get(), "/v0/runs/{id}/actions", Needs::SigningKey, large::actions),
        endpoint(get(), "/v0/runs/{id}/batch", Needs::SigningKey, large::batch),
        endpoint(post(), "/v1/signals", Needs::SigningKey, signal::post),
        endpoint(get(), "/dev", Needs::Nothing, api::dev),
        endpoint(get(), "/v1/runs/{id}", Needs::SigningKey, api::run),
        endpoint(Method::DELETE, "/v1/runs/{id}", Needs::SigningKey, api::cancel),
        endpoint(get(), "/v1/events/{id}/runs", Needs::SigningKey, api::runs_of),
        endpoint(post(), "/v1/cancellations", Needs::SigningKey, api::cancel_many),
    ]
}

/// Returns the routes of all endpoints.
pub(crate) fn routes(app: &App) -> Vec<(&'static str, MethodRouter<App>)> {
    let routes = endpoints().into_iter().map(|(_, path, needs, route)| {
        let state = (app.clone(), needs, path);
        (path, route.route_layer(from_fn_with_state(state, pass)))
    });
    routes.collect()
}

/// An admitted request: the engine in the workspace of its environment.
#[derive(Clone, Debug)]
pub(super) struct SdkCaller {
    pub(super) engine: Engine,
}

impl<S: Send + Sync> FromRequestParts<S> for SdkCaller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Refused::new(StatusCode::UNAUTHORIZED, "the endpoint needs a key"))
    }
}

/// Middleware of every endpoint.
async fn pass(
    State((app, needs, name)): State<(App, Needs, &'static str)>,
    request: Request,
    next: Next,
) -> Response {
    let _underway = app.requests.begin(name);
    let kind = app.inngest.keys.kind();
    let from_page = needs == Needs::EventKey;
    let answered = tokio::time::timeout(DEADLINE, passed(&app, needs, request, next)).await;
    let late = |_| {
        let message = "the request timed out; it may still complete";
        Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, message))
    };
    let answered = answered.unwrap_or_else(late);
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    response.headers_mut().insert(SERVER_KIND, HeaderValue::from_static(kind));
    if from_page {
        let any = HeaderValue::from_static("*");
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    }
    response
}

async fn passed(
    app: &App,
    needs: Needs,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let (mut parts, body) = request.into_parts();
    if needs == Needs::Nothing {
        return Ok(next.run(Request::from_parts(parts, body)).await);
    }
    admit(app, needs, &mut parts).await?;
    let engine = environment(app, &parts.headers)?;
    parts.extensions.insert(SdkCaller { engine });
    let body: Bytes = read_body(&parts.headers, body).await?;
    let _room = app.access.room(None)?;
    Ok(next.run(Request::from_parts(parts, body.into())).await)
}

/// Checks the key of a request; without keys, that it comes from this machine.
async fn admit(app: &App, needs: Needs, parts: &mut Parts) -> Result<(), Refused> {
    let keys = &app.inngest.keys;
    if !keys.are_required() {
        let from_page = needs == Needs::EventKey;
        let Parts { method, headers, .. } = parts;
        return app.access.admit_local(&app.engine, method, headers, from_page).await.map_err(
            |problem| match problem.into_parts() {
                (StatusCode::UNAUTHORIZED, _) => Refused::new(
                    StatusCode::UNAUTHORIZED,
                    "this server has API keys, but no keys for Inngest SDKs: set \
                     INNGEST_SIGNING_KEY and INNGEST_EVENT_KEY for the server",
                ),
                (status, detail) => Refused::new(status, detail),
            },
        );
    }
    let admitted = match needs {
        Needs::EventKey => {
            let key = parts.extract::<Path<String>>().await;
            key.is_ok_and(|Path(key)| keys.admit_event_key(&key))
        }
        Needs::SigningKey | Needs::PlainSigningKey | Needs::Nothing => {
            let is_plain = needs == Needs::PlainSigningKey;
            bearer(&parts.headers).is_some_and(|given| {
                keys.admit_bearer(given) || (is_plain && keys.admit_signing_key(given))
            })
        }
    };
    if admitted {
        return Ok(());
    }
    let message = match needs {
        Needs::EventKey => "the event key is not one of this server",
        Needs::SigningKey | Needs::PlainSigningKey | Needs::Nothing => {
            "the signing key is not one of this server"
        }
    };
    Err(Refused::new(StatusCode::UNAUTHORIZED, message))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Returns the engine in the workspace that has the name of the request's environment.
fn environment(app: &App, headers: &HeaderMap) -> Result<Engine, Refused> {
    let named = headers.get(ENVIRONMENT).map(|name| name.to_str().unwrap_or_default());
    let Some(name) = named.filter(|name| !name.is_empty()) else { return Ok(app.engine.clone()) };
    if app.access.serves(name) {
        return Ok(app.engine.in_workspace(name));
    }
    let message = format!(
        "this server has no environment `{name}`: add it to its setting `workspaces`, or send no \
         INNGEST_ENV"
    );
    Err(Refused::new(StatusCode::BAD_REQUEST, message))
}

/// Parses the id of a run in a path.
pub(super) fn run_id(text: &str) -> Result<RunId, Refused> {
    text.parse().map_err(|_| no_run(text))
}

pub(super) fn no_run(id: &str) -> Refused {
    Refused::new(StatusCode::NOT_FOUND, format!("there is no run `{id}`"))
}

/// An error as the SDKs read it: the status is in the body, too.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// Refuses a configuration. The SDK shows the message.
    pub(super) fn config(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// As [`Refused::config`], if the error is that of a definition.
    pub(super) fn definition(error: tidegate::Error) -> Self {
        match error {
            error @ (tidegate::Error::Definition(_) | tidegate::Error::Refused(_)) => {
                Self::config(error.to_string())
            }
            other => other.into(),
        }
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        let (status, message) = problem.into_parts();
        // The SDKs know no other status for a request that is invalid.
        let is_invalid = status == StatusCode::UNPROCESSABLE_ENTITY;
        Self { status: if is_invalid { StatusCode::BAD_REQUEST } else { status }, message }
    }
}

impl From<tidegate::Error> for Refused {
    fn from(error: tidegate::Error) -> Self {
        Problem::from(error).into()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = self.status;
        (status, Json(json!({ "error": self.message, "status": status.as_u16() }))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::expect;

    use super::endpoints;

    /// The access matrix: a change of who may call an endpoint is a change of this list.
    #[test]
    fn every_endpoint_says_which_key_it_needs() {
        let mut matrix = String::new();
        for (method, path, needs, _) in endpoints() {
            writeln!(matrix, "{method} {path} {needs:?}").unwrap();
        }
        expect![[r#"
            POST /fn/register SigningKey
            POST /e/{key} EventKey
            OPTIONS /e/{key} Nothing
            POST /v1/checkpoint/{run}/async PlainSigningKey
            GET /v0/runs/{id}/actions SigningKey
            GET /v0/runs/{id}/batch SigningKey
            POST /v1/signals SigningKey
            GET /dev Nothing
            GET /v1/runs/{id} SigningKey
            DELETE /v1/runs/{id} SigningKey
            GET /v1/events/{id}/runs SigningKey
            POST /v1/cancellations SigningKey
        "#]]
        .assert_eq(&matrix);
    }
}
