//! Repetition of requests whose connection ended before any part of a response.
//!
//! A service closes a connection that is idle for some seconds. Node.js looks at its timers before
//! its sockets: an app that had no processor for five seconds closes connections on which requests
//! wait, and every client that keeps connections loses them. Such a request must not cost an attempt
//! and its backoff. It is sent once more on a new connection, which has no such timer.

use std::{error::Error, io::ErrorKind};

use reqwest::{Client, Request, Response};

/// Sends a request. If its connection ends before any part of the response, and `repeats` is set,
/// sends it once more by `fresh`, a client that keeps no connections.
///
/// The service may have begun with the first request, so `repeats` is only for requests that may be
/// executed twice.
pub(super) async fn send(
    client: &Client,
    fresh: &Client,
    request: Request,
    repeats: bool,
) -> reqwest::Result<Response> {
    let copy = request.try_clone().filter(|_| repeats);
    match (client.execute(request).await, copy) {
        (Err(error), Some(copy)) if !error.is_connect() && has_ended(&error) => {
            tracing::debug!("connection ended before the response, repeating the request");
            fresh.execute(copy).await
        }
        (sent, _) => sent,
    }
}

/// Whether a connection that was open has ended before any part of the response.
fn has_ended(error: &reqwest::Error) -> bool {
    const LOST: [ErrorKind; 3] =
        [ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted, ErrorKind::BrokenPipe];
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        let http = error.downcast_ref::<hyper::Error>();
        if io.is_some_and(|error| LOST.contains(&error.kind()))
            || http.is_some_and(hyper::Error::is_incomplete_message)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    const PART: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab";

    /// Answers of a service to the requests on its connections; an empty one ends the connection.
    type Connections = &'static [&'static [&'static [u8]]];

    async fn serve(listener: TcpListener, connections: Connections, requests: Arc<AtomicUsize>) {
        for answers in connections {
            let (mut stream, _) = listener.accept().await.unwrap();
            for answer in *answers {
                read(&mut stream).await;
                requests.fetch_add(1, Ordering::SeqCst);
                stream.write_all(answer).await.unwrap();
            }
        }
    }

    async fn read(stream: &mut TcpStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n{}") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "{request:?}");
        }
    }

    /// Sends two requests, one after the other. Returns which have succeeded, and how many the
    /// service has read.
    async fn two(repeats: bool, connections: Connections) -> ([bool; 2], usize) {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build().unwrap();
        let fresh = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let service = tokio::spawn(serve(listener, connections, requests.clone()));
        let mut sent = [false; 2];
        for sent in &mut sent {
            let request = client.post(&url).body("{}").build().unwrap();
            *sent = match send(&client, &fresh, request, repeats).await {
                Ok(response) => response.bytes().await.is_ok(),
                Err(_) => false,
            };
        }
        service.abort();
        (sent, requests.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn a_request_is_repeated_on_a_new_connection_if_it_may_be() {
        assert_eq!(two(true, &[&[ANSWER, b""], &[ANSWER]]).await, ([true, true], 3));
        assert_eq!(two(false, &[&[ANSWER, b""], &[ANSWER]]).await, ([true, false], 2));
        let twice = two(true, &[&[ANSWER, b""], &[b""], &[ANSWER]]).await;
        assert_eq!(twice, ([true, false], 3), "it is repeated once");
    }

    #[tokio::test]
    async fn a_request_with_a_part_of_the_response_is_not_repeated() {
        assert_eq!(two(true, &[&[ANSWER, PART], &[ANSWER]]).await, ([true, false], 2));
    }
}
