//! Test service for workflows: it records every call and answers as the test says.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use tokio::sync::watch;

/// A recorded call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

type Answer =
    dyn Fn(&Call, usize) -> (u16, Vec<(&'static str, &'static str)>, String) + Send + Sync;

/// The test service.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    /// Calls that are held open: none, all, or those of one path.
    shut: watch::Sender<Option<String>>,
    answer: Arc<Answer>,
}

impl Target {
    /// Starts a service that answers each call with a status, headers and a body. The function also
    /// gets the number of earlier calls.
    pub(crate) async fn start(
        answer: impl Fn(&Call, usize) -> (u16, Vec<(&'static str, &'static str)>, String)
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (calls, shut) = (Arc::default(), watch::Sender::new(None));
        let target = Self { url, calls, shut, answer: Arc::new(answer) };
        let router = Router::new().fallback(called).with_state(target.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        target
    }

    /// Starts a service that answers every call with `{"ok": true}`.
    pub(crate) async fn kind() -> Self {
        let json = ("content-type", "application/json");
        Self::start(move |_, _| (200, vec![json], r#"{"ok": true}"#.to_owned())).await
    }

    /// Holds all calls open, or releases them.
    pub(crate) fn open(&self, open: bool) {
        self.shut.send_replace((!open).then(String::new));
    }

    /// Holds calls of a path open, or releases them.
    pub(crate) fn shut(&self, path: &str, shut: bool) {
        self.shut.send_replace(shut.then(|| path.to_owned()));
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Waits until the service has received this many calls.
    pub(crate) async fn called(&self, times: usize) {
        while self.calls().len() < times {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

async fn called(
    State(target): State<Target>,
    headers: HeaderMap,
    uri: axum::http::Uri,
    body: Bytes,
) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let call = Call { path: uri.path().to_owned(), headers, body };
    let before = {
        let mut calls = target.calls.lock().unwrap();
        calls.push(call.clone());
        calls.len() - 1
    };
    let here = |shut: &Option<String>| shut.as_ref().is_some_and(|it| call.path.starts_with(it));
    let _ = target.shut.subscribe().wait_for(|shut| !here(shut)).await;
    let (status, headers, body) = (target.answer)(&call, before);
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(HeaderName::from_static(name), value.parse().unwrap());
    }
    response
}
