//! Request middleware: authentication, query checks, body limits, idempotency keys.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody as _},
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tidegate::{AuditEntry, Author, Engine};
use tidegate_core::{definition::DEFAULT_APP, json::Payload, row::ApiKey};
use tokio::sync::Semaphore;

use super::{
    App,
    body::MAX_BODY_BYTES,
    idempotency_key,
    operation::{Audited, Needs},
    problem::Problem,
};

/// Maximum time for a client to send its body.
const BODY: Duration = Duration::from_secs(30);

/// Maximum size of a body that is read without a permit, in bytes.
const SMALL: u64 = 64 * 1024;

/// Permits for longer bodies, which limit the memory for bodies. A long body without a permit
/// waits.
static LARGE: Semaphore = Semaphore::const_new(500);

/// Timeout of a request. It is longer than the maximum `wait` of a request for its run.
const DEADLINE: Duration = Duration::from_secs(90);

/// The authenticated caller of a request. Its engine acts in the caller's workspace. With an
/// idempotency key, the request takes effect at most once (`once`).
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(super) engine: Engine,
    pub(super) once: Option<Arc<tidegate::IdempotentCall>>,
    /// The API key of the request; `None` if the server requires none.
    pub(super) key: Option<Arc<ApiKey>>,
    /// Default app of requests: the app of the config file, in the workspace of that file.
    app: Arc<str>,
}

impl Caller {
    /// Whether the request repeats one that has already taken effect: only its response is needed.
    pub(super) fn is_again(&self) -> bool {
        self.once.as_ref().is_some_and(|once| once.is_again())
    }

    /// Returns the app of the request: the named one, or the default.
    pub(super) fn app(&self, named: Option<String>) -> String {
        named.unwrap_or_else(|| self.app.as_ref().to_owned())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let nobody = || Problem::unauthorized("key_missing", "the request has no API key");
        parts.extensions.get::<Self>().cloned().ok_or_else(nobody)
    }
}

/// Middleware of every operation.
pub(super) async fn pass(
    State((app, asks, operation)): State<(App, Requirements, &'static str)>,
    request: Request,
    next: Next,
) -> Response {
    let _underway = app.requests.begin(operation);
    let answered =
        tokio::time::timeout(DEADLINE, passed(&app, (&asks, operation), request, next)).await;
    let late = |_| {
        let seconds = DEADLINE.as_secs();
        let detail = format!("request timed out after {seconds} s; it may still complete");
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", detail).retry_after(1))
    };
    answered.unwrap_or_else(late).unwrap_or_else(IntoResponse::into_response)
}

/// What an operation requires of its requests.
#[derive(Clone, Debug)]
pub(super) struct Requirements {
    pub(super) needs: Needs,
    pub(super) audit: Audited,
    /// Names of the allowed query parameters; `None` if all are allowed.
    pub(super) query: Option<Arc<[String]>>,
}

impl Requirements {
    /// Rejects unknown query parameters: a misspelled filter would silently match everything.
    fn check_query(&self, parts: &Parts) -> Result<(), Problem> {
        let (Some(names), Some(query)) = (&self.query, parts.uri.query()) else { return Ok(()) };
        let read = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let axum::extract::Query(members) =
            read.map_err(|_| Problem::invalid("bad_query", format!("malformed query `{query}`")))?;
        let unknown = members.iter().find(|(name, _)| !names.contains(name));
        unknown.map_or(Ok(()), |(name, _)| {
            let fix = match &**names {
                [] => "this operation has none, leave it out".to_owned(),
                names => format!("expected one of {}", names.join(", ")),
            };
            Err(Problem::invalid("bad_query", format!("unknown query parameter `{name}`; {fix}")))
        })
    }
}

async fn passed(
    app: &App,
    (asks, operation): (&Requirements, &str),
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    if asks.needs == Needs::Nothing {
        asks.check_query(&parts)?;
        let body = if parts.method == Method::GET {
            body
        } else {
            in_time(&parts.headers, body).await?.into()
        };
        return Ok(next.run(Request::from_parts(parts, body)).await);
    }
    let admitted = app.access.admit(&app.engine, asks.needs, &parts.method, &parts.headers).await?;
    asks.check_query(&parts)?;
    let key = admitted.key.clone().map(Arc::new);
    let engine = admitted.engine.clone();
    let ours = engine.workspace() == app.engine.workspace();
    let named = if ours { app.ways.app.clone() } else { DEFAULT_APP.into() };
    let by = Author {
        name: key.as_ref().map(|key| key.name.clone()),
        address: parts.extensions.get::<SocketAddr>().map(|peer| peer.ip().to_string()),
    };
    let mut caller = Caller { engine, once: None, key, app: named };
    if parts.method == Method::GET {
        let _room = app.access.room(caller.key.as_deref())?;
        parts.extensions.insert(caller);
        return Ok(next.run(Request::from_parts(parts, body)).await);
    }
    let body = read(&parts.headers, body).await?;
    let _room = app.access.room(caller.key.as_deref())?;
    if asks.audit != Audited::Nothing {
        let entry = AuditEntry {
            ws: caller.engine.workspace().into(),
            by,
            operation: operation.to_owned(),
            subject: parts.uri.path().to_owned(),
            before: None,
            after: (asks.audit == Audited::Body).then(|| logged(&body)).flatten(),
        };
        caller.engine = caller.engine.audited(entry);
    }
    let Some(keyed) = idempotency_key::keyed(&caller, &parts, &body)? else {
        parts.extensions.insert(caller);
        return Ok(next.run(Request::from_parts(parts, body.into())).await);
    };
    if let Some(response) = idempotency_key::stored(&caller, &keyed).await? {
        return Ok(response);
    }
    let (engine, once) = caller.engine.once(keyed);
    caller = Caller { engine, once: Some(once.clone()), ..caller };
    parts.extensions.insert(caller.clone());
    let response = next.run(Request::from_parts(parts, body.into())).await;
    idempotency_key::keep(&caller.engine, &once, response).await
}

/// Maximum size of a body in the audit log, in bytes.
const MAX_LOGGED: usize = 16 * 1024;

/// Returns a body for the audit log; none if it is empty or too large.
fn logged(body: &Bytes) -> Option<Payload> {
    Payload::parse(body, MAX_LOGGED).ok()
}

/// Reads the whole body. It must be JSON, not too large, and arrive in time.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    if let Some(kind) = kind.filter(|_| length(headers) != Some(0)) {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // The default content type of curl is accepted too. A web page of another site could send
        // it, but such requests are rejected because of their origin.
        let curl = kind == "application/x-www-form-urlencoded";
        if kind != "application/json" && !kind.ends_with("+json") && !curl {
            let detail = format!("the content type must be `application/json`, got `{kind}`");
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Problem::new(status, "not_json", detail));
        }
    }
    in_time(headers, body).await
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads the whole body. It must not be too large, and must arrive in time.
pub(crate) async fn in_time(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the request body must have at most {MAX_BODY_BYTES} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", detail)
    };
    if length(headers).is_some_and(|length| length > MAX_BODY_BYTES) {
        return Err(too_large());
    }
    let whole = tokio::time::timeout(BODY, async {
        // A body without a declared length counts as large.
        let small = body.size_hint().upper().is_some_and(|length| length <= SMALL);
        let _place = if small { None } else { LARGE.acquire().await.ok() };
        axum::body::to_bytes(body, MAX_BODY_BYTES).await
    });
    let whole = whole.await;
    let whole = whole.map_err(|_| {
        let detail = format!("the request body did not arrive within {} s", BODY.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", detail)
    })?;
    // The body is incomplete, or too large: without a declared length its size is known only now.
    whole.map_err(|error| {
        if std::error::Error::source(&error)
            .is_some_and(|it| it.to_string().contains("length limit"))
        {
            return too_large();
        }
        Problem::new(StatusCode::BAD_REQUEST, "bad_body", "the request body is incomplete")
    })
}
