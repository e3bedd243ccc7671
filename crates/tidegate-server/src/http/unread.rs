//! Bodies that were refused before they were read.
//!
//! A connection can carry another request only behind the end of the last body. A short rest is
//! read off, so that a refusal costs no connection. For any other rest the answer says
//! `Connection: close`, and the rest is still read for a while: closing a socket with unread bytes
//! resets it, and the client would lose the answer.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderValue, header},
    response::Response,
};
use hyper::body::{Frame, SizeHint};

/// The longest rest for whose end the answer waits.
const SHORT: u64 = 64 * 1024;

/// How long it waits: what was sent with the head is there at once.
const SOON: Duration = Duration::from_millis(100);

/// How much of any other rest is read off, and for how long.
const LONG: (u64, Duration) = (16 * 1024 * 1024, Duration::from_secs(5));

/// A body, and whether its end was reached.
#[derive(Debug)]
struct Watched {
    body: Body,
    ended: bool,
}

/// One body, held by its reader and by whoever reads the rest of it.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Watched>>);

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Watched) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.with(|watched| {
            let frame = ready!(Pin::new(&mut watched.body).poll_frame(cx));
            watched.ended = frame.is_none() || watched.body.is_end_stream();
            Poll::Ready(frame)
        })
    }

    fn is_end_stream(&self) -> bool {
        self.with(|watched| watched.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|watched| watched.body.size_hint())
    }
}

/// What may be left of a request's body after its answer.
#[derive(Debug)]
pub(super) struct Rest(Option<Shared>);

/// A request whose body is watched, if it has one.
pub(super) fn watch(request: Request) -> (Request, Rest) {
    if request.body().is_end_stream() {
        return (request, Rest(None));
    }
    let (parts, body) = request.into_parts();
    let shared = Shared(Arc::new(Mutex::new(Watched { body, ended: false })));
    (Request::from_parts(parts, Body::new(shared.clone())), Rest(Some(shared)))
}

impl Rest {
    /// Reads off what is left, or says in the answer that the connection ends.
    pub(super) async fn finish(self, response: &mut Response) {
        let Some(mut shared) = self.0.filter(|shared| shared.with(|watched| !watched.ended)) else {
            return;
        };
        let short = shared.size_hint().upper().is_some_and(|left| left <= SHORT);
        if short && read_off(&mut shared, SHORT, SOON).await {
            return;
        }
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        tokio::spawn(async move { read_off(&mut shared, LONG.0, LONG.1).await });
    }
}

/// Reads and forgets, within bounds; whether the end was reached.
async fn read_off(shared: &mut Shared, most: u64, time: Duration) -> bool {
    let mut read = 0;
    let all = async {
        while let Some(frame) =
            std::future::poll_fn(|cx| Pin::new(&mut *shared).poll_frame(cx)).await
        {
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, Bytes::len) as u64;
            if read > most {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(time, all).await.unwrap_or(false)
}
