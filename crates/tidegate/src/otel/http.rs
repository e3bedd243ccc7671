//! Minimal HTTP/1.1 client for exports: one POST per connection.
//!
//! Exporters call it on their own threads, so it may block. An HTTP client with all its features
//! would cost more to compile than the rest of the export.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

/// Maximum number of bytes read of a response's head.
const MAX_HEAD: u64 = 16 * 1024;

/// Checks an endpoint. The error says what is wrong with it.
pub(super) fn check(endpoint: &str) -> Result<(), String> {
    if !endpoint.starts_with("http://") {
        return Err("does not begin with http://".to_owned());
    }
    match Request::post(endpoint).body(()) {
        Err(error) => Err(format!("is no URL: {error}")),
        Ok(request) if request.uri().query().is_some() => Err("has a query".to_owned()),
        Ok(_) => Ok(()),
    }
}

/// HTTP client that posts to a collector.
#[derive(Debug)]
pub(super) struct Client {
    limit: Duration,
    /// Whether the last export failed, and the failure has been logged.
    failing: AtomicBool,
}

impl Client {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, failing: AtomicBool::new(false) }
    }

    fn post(&self, request: &Request<Bytes>) -> io::Result<Response<Bytes>> {
        let uri = request.uri();
        let address =
            format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
        let mut stream = connect(&address, self.limit)?;
        stream.set_read_timeout(Some(self.limit))?;
        stream.set_write_timeout(Some(self.limit))?;
        let (path, body) = (uri.path(), request.body());
        let mut head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\n").into_bytes();
        for (name, value) in request.headers() {
            head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        let length = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
        head.extend(length.into_bytes());
        stream.write_all(&head)?;
        stream.write_all(body)?;
        answer(BufReader::new(stream.take(MAX_HEAD)))
    }

    /// Logs when exports begin to fail, and when they work again: once each.
    fn tell(&self, outcome: Result<(), String>) {
        let failing = outcome.is_err();
        if self.failing.swap(failing, Ordering::Relaxed) != failing {
            match outcome {
                Ok(()) => tracing::info!("telemetry export resumed"),
                Err(error) => tracing::warn!(error, "telemetry export failed, dropping telemetry"),
            }
        }
    }
}

/// Connects to the first of a host's addresses that answers.
fn connect(address: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reads the status of a response, and its `retry-after`. The rest of the response does not matter.
fn answer(reader: impl BufRead) -> io::Result<Response<Bytes>> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    let mut lines = reader.lines();
    let status = lines.next().ok_or_else(bad)??;
    let status = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    let mut response = Response::builder().status(status.ok_or_else(bad)?);
    for line in lines {
        match line?.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("retry-after") => {
                response = response.header(name, value.trim());
            }
            Some(_) => {}
            None => break,
        }
    }
    response.body(Bytes::new()).map_err(|_| bad())
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answered = self.post(&request);
        self.tell(match &answered {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("{} says {}", request.uri(), response.status())),
            Err(error) => Err(format!("{}: {error}", request.uri())),
        });
        Ok(answered?)
    }
}
