//! Unread parts of request bodies, after a request was rejected early.
//!
//! A connection can carry another request only after the end of the previous body. A short unread
//! part is read and discarded, so that the connection can be used again. If it is longer, the
//! response has `Connection: close`, and the server still reads for a while: closing a socket with
//! unread bytes resets it, and the client would lose the response.

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

/// Maximum size of an unread part that is read before the response is sent, in bytes.
const SHORT: u64 = 64 * 1024;

/// Timeout for reading a short unread part. Bytes that were sent together with the headers have
/// already arrived.
const SOON: Duration = Duration::from_millis(100);

/// Limit in bytes and in time for reading a longer unread part.
const LONG: (u64, Duration) = (16 * 1024 * 1024, Duration::from_secs(5));

/// A body, and whether its end was reached.
#[derive(Debug)]
struct Watched {
    body: Body,
    ended: bool,
}

/// One body, shared by its reader and the code that drains it.
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

/// Handle to the unread part of a request's body, used after its response is made.
#[derive(Debug)]
pub(super) struct Rest(Option<Shared>);

/// Wraps the body of a request, so that its end can be detected. A request without a body is
/// unchanged.
pub(super) fn watch(request: Request) -> (Request, Rest) {
    if request.body().is_end_stream() {
        return (request, Rest(None));
    }
    let (parts, body) = request.into_parts();
    let shared = Shared(Arc::new(Mutex::new(Watched { body, ended: false })));
    (Request::from_parts(parts, Body::new(shared.clone())), Rest(Some(shared)))
}

impl Rest {
    /// Reads the unread part, or adds `Connection: close` to the response.
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

/// Reads and discards bytes within the limits. Returns whether the end of the body was reached.
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
