//! Recording service: it is called by all servers, and no fault affects it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tidegate_core::time::Timestamp;
use tokio::net::TcpListener;

use crate::journal::{Call, CallEnd, Shared, now};

/// The recording service.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) url: String,
    journal: Arc<Shared>,
    next: Arc<AtomicU64>,
    /// Names of the incarnations of servers, which are also the secrets of their signatures.
    callers: Arc<Mutex<Vec<String>>>,
}

impl Service {
    pub(crate) async fn start(journal: Arc<Shared>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Self { url, journal, next: Arc::default(), callers: Arc::default() };
        let router = Router::new().fallback(serve).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    /// Registers an incarnation of a server. Its secret is its name.
    pub(crate) fn expect(&self, incarnation: &str) {
        self.callers.lock().unwrap().push(incarnation.to_owned());
    }

    /// Returns the incarnation that signed a call; empty if unknown.
    fn caller(&self, headers: &HeaderMap, body: &[u8]) -> String {
        let text = |name: &str| headers.get(name).map_or(&[][..], |it| it.as_bytes());
        let signature = text("webhook-signature").strip_prefix(b"v1,").unwrap_or_default();
        let signature = STANDARD.decode(signature).unwrap_or_default();
        let signed_by = |secret: &&String| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
            for part in [text("webhook-id"), b".", text("webhook-timestamp"), b".", body] {
                mac.update(part);
            }
            mac.verify_slice(&signature).is_ok()
        };
        let callers = self.callers.lock().unwrap();
        callers.iter().rev().find(signed_by).cloned().unwrap_or_default()
    }
}

/// A call in progress. It ends when it is answered or its caller disconnects.
struct Open {
    service: Service,
    at: usize,
}

impl Open {
    fn end(&self, how: CallEnd) {
        let mut journal = self.service.journal.lock().unwrap();
        let call = &mut journal.calls[self.at];
        if call.how == CallEnd::Open {
            (call.end, call.how) = (now(), how);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(CallEnd::Dropped);
    }
}

async fn serve(
    State(service): State<Service>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).map_or("", |it| it.to_str().unwrap()).to_owned();
    let payload: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = service.next.fetch_add(1, Ordering::Relaxed);
    let (numbers, key) = carried(&payload);
    let revision = uri.query().and_then(|query| query.strip_prefix("revision=")?.parse().ok());
    let call = Call {
        id,
        lane: uri.path().trim_start_matches('/').to_owned(),
        revision: revision.unwrap_or_default(),
        run: header("tidegate-run"),
        effect: header("idempotency-key"),
        version: header("tidegate-version"),
        server: service.caller(&headers, &body),
        key,
        begin: now(),
        end: 0,
        how: CallEnd::Open,
        numbers,
    };
    let (wait, status) = plan(&call);
    let open = {
        let mut journal = service.journal.lock().unwrap();
        journal.calls.push(call);
        Open { at: journal.calls.len() - 1, service: service.clone() }
    };
    tokio::time::sleep(wait).await;
    open.end(CallEnd::Answered(status));
    let status = StatusCode::from_u16(status).unwrap();
    (status, axum::Json(json!({ "call": id }))).into_response()
}

/// Returns the numbers of the requests in a payload, and their key.
fn carried(payload: &Value) -> (Vec<u64>, String) {
    let one = |data: &Value| {
        let data = data.get("input").unwrap_or(data);
        let planned = data["plannedAt"].as_str().and_then(Timestamp::parse_rfc3339);
        let planned = planned.map(|at| at.micros().unsigned_abs() / 1_000_000);
        let key = ["key", "id"].iter().find_map(|name| data[name].as_str());
        let key = data["payment"].as_str().or(key).unwrap_or_default().to_owned();
        (data["n"].as_u64().or(planned).unwrap_or_default(), key)
    };
    let Some(list) = payload.as_array() else {
        let (n, key) = one(payload);
        return (vec![n], key);
    };
    let key = list.first().map(|first| one(first).1);
    (list.iter().map(|data| one(data).0).collect(), key.unwrap_or_default())
}

/// Whether the service always refuses a request number.
pub(crate) fn is_refused(n: u64) -> bool {
    n % 29 == 11
}

/// Returns the duration of a call, and the status of its answer.
fn plan(call: &Call) -> (Duration, u16) {
    let n = call.numbers.first().copied().unwrap_or_default();
    let mixed = (n ^ call.id.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let millis = match mixed % 16 {
        0 => 900 + mixed / 16 % 900,
        1..=4 => 100 + mixed / 16 % 300,
        _ => 5 + mixed / 16 % 40,
    };
    let status = match () {
        () if call.numbers.len() == 1 && call.lane != "clock" && is_refused(n) => 400,
        () if mixed / 7 % 25 == 3 => 503,
        () => 200,
    };
    (Duration::from_millis(millis), status)
}
