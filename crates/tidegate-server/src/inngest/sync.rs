//! Sync that the server begins: `PUT` to the URL of an app, which then registers its functions.
//!
//! An app either answers with its functions (in band), or calls `/fn/register` while the `PUT` is
//! open. In development apps are asked every few seconds, so that a changed or restarted app is
//! known soon.

use std::time::Duration;

use reqwest::{
    Method, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use tidegate::Engine;

use super::{
    ConfiguredApp, Inngest, access::SERVER_KIND, call::SDK, keys::SIGNATURE, register::register,
};
use crate::{
    call::{Exchange, Exchanged},
    http::MAX_BODY_BYTES,
};

/// Header of an in-band sync, in the request and in the answer of an app that obeys.
const SYNC_KIND: HeaderName = HeaderName::from_static("x-inngest-sync-kind");

/// Maximum silence of an app. Frameworks compile an app at its first request in development.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two syncs of an app: in development, after an error, and else.
const EVERY: [Duration; 3] =
    [Duration::from_secs(3), Duration::from_secs(10), Duration::from_secs(60)];

/// Paths at which the frameworks serve an SDK, for URLs without a path.
const PATHS: [&str; 4] =
    ["/api/inngest", "/x/inngest", "/.netlify/functions/inngest", "/.redwood/functions/inngest"];

/// Starts a task for each app, which syncs it until the process ends.
pub(crate) fn start(inngest: &Inngest, engine: &Engine) {
    for ConfiguredApp { url, environment } in inngest.apps.iter() {
        let (inngest, url) = (inngest.clone(), url.clone());
        let engine = match environment {
            Some(name) => engine.in_workspace(name.as_str()),
            None => engine.clone(),
        };
        tokio::spawn(async move { follow(&inngest, &engine, &url).await });
    }
}

async fn follow(inngest: &Inngest, engine: &Engine, url: &Url) {
    let [in_development, after_error, else_] = EVERY;
    loop {
        let synced = sync(inngest, engine, url).await;
        let pause = match &synced {
            _ if !inngest.keys.are_required() => in_development,
            Ok(()) => else_,
            Err(_) => after_error,
        };
        let line = match synced {
            Ok(()) => format!("app at {url}: synced"),
            Err(error) => format!("app at {url}: {error}"),
        };
        inngest.reports.say(url.as_str(), &line);
        tokio::time::sleep(pause).await;
    }
}

/// Syncs one app. Its URL may lack the path.
async fn sync(inngest: &Inngest, engine: &Engine, url: &Url) -> Result<(), String> {
    if url.path() != "/" {
        return sync_at(inngest, engine, url).await;
    }
    let mut first = None;
    for path in PATHS {
        let mut at = url.clone();
        at.set_path(path);
        match sync_at(inngest, engine, &at).await {
            Ok(()) => return Ok(()),
            Err(error) => first = first.or(Some(format!("{path}: {error}"))),
        }
    }
    Err(first.unwrap_or_default())
}

async fn sync_at(inngest: &Inngest, engine: &Engine, url: &Url) -> Result<(), String> {
    let body = json!({ "url": url.as_str() }).to_string();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(SERVER_KIND, HeaderValue::from_static(inngest.keys.kind()));
    headers.insert(SYNC_KIND, HeaderValue::from_static("in_band"));
    let now_s = engine.now().micros() / 1_000_000;
    let signature = inngest.keys.sign(body.as_bytes(), now_s)?;
    if let Some(signature) = signature.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(SIGNATURE, signature);
    }
    let url = inngest.calls.vetted(url.as_str());
    let url = url.map_err(|error| error.message().to_owned())?;
    let (method, body) = (Method::PUT, body.into());
    let (silence, max_bytes) = (PATIENCE, MAX_BODY_BYTES);
    let exchange = Exchange { method, url, headers, body, silence, max_bytes, repeats: true };
    let exchanged = inngest.calls.exchange(exchange).await;
    let exchanged = exchanged.map_err(|error| {
        let message = error.message();
        // The chain of causes begins with the library's own words.
        let cause = message.rsplit_once("connect error: ").map_or(message, |(_, cause)| cause);
        format!("no answer ({cause}): is the app running?")
    })?;
    understand(inngest, engine, exchanged).await
}

/// Registers the functions in the answer of an app, if it has them.
async fn understand(
    inngest: &Inngest,
    engine: &Engine,
    Exchanged { status, headers, body }: Exchanged,
) -> Result<(), String> {
    if !status.is_success() {
        return Err(reason(status, &headers, &body));
    }
    if headers.get(SYNC_KIND).is_some_and(|kind| kind == "in_band") {
        let registered = register(engine, &body).await.map_err(|refused| refused.message)?;
        inngest.note(engine, &registered);
        return Ok(());
    }
    if headers.contains_key(SDK) {
        return Ok(());
    }
    Err(format!("{status}, but not from an Inngest SDK: is this the URL that it serves?"))
}

/// Returns the reason that an app gives for refusing a sync.
fn reason(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let said: Option<Value> = serde_json::from_slice(body).ok();
    let said = said.as_ref().and_then(|it| it.get("message").or(it.get("error"))?.as_str());
    match said {
        Some(said) => format!("{status}: {said}"),
        None if headers.contains_key(SDK) => status.to_string(),
        None => format!("{status}, and not from an Inngest SDK: is this the URL that it serves?"),
    }
}
