//! `tidegate bench`: loads a server with events and measures throughput and latency.
//!
//! It uses open sockets and prepared requests, so that it needs little CPU: it shares the machine
//! with the server that it measures.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use axum::{Json, Router};
use clap::Args;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    client::{Remote, key},
    exit::Failure,
    progress::Progress,
};

/// The load of a benchmark.
#[derive(Args, Debug)]
pub(crate) struct Load {
    /// Number of events.
    #[arg(long, default_value_t = 10_000)]
    events: u64,
    /// Number of events per request.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,
    /// Number of concurrent connections.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// Name of the events. Their data is `{"n": …, "key": …}`, with a thousand keys.
    #[arg(long, default_value = "bench")]
    name: String,
    /// Also measure a handler on this machine that only responds, for comparison.
    #[arg(long)]
    bare: bool,
}

/// The result of a benchmark.
#[derive(Debug)]
struct Figures {
    events: u64,
    seconds: f64,
    /// Latency of each request, sorted.
    waits: Vec<Duration>,
}

impl Figures {
    fn rate(&self) -> f64 {
        (u32::try_from(self.events).map_or(f64::MAX, f64::from) / self.seconds).round()
    }

    fn percentile(&self, per_mille: usize) -> Duration {
        self.waits[(self.waits.len() - 1) * per_mille / 1000]
    }

    fn view(&self) -> Value {
        let ms = |per_mille| {
            let micros = self.percentile(per_mille).as_micros();
            u32::try_from(micros).map_or(f64::MAX, f64::from) / 1000.0
        };
        json!({
            "events": self.events, "eventsPerSecond": self.rate(), "requests": self.waits.len(),
            "ms": { "p50": ms(500), "p90": ms(900), "p99": ms(990), "max": ms(1000) },
        })
    }
}

/// Runs the benchmark and prints the result.
pub(crate) async fn run(remote: &Remote, load: Load, out: &mut impl Write) -> anyhow::Result<()> {
    let host = remote.server().trim_end_matches('/').strip_prefix("http://");
    let host =
        host.with_context(|| format!("--server must be an http:// URL, got {}", remote.server()))?;
    let mut report = measure(host, remote, &load).await?.view();
    if load.bare {
        let bare = measure(&bare().await?, remote, &load).await?;
        report["bare"] = bare.view();
    }
    if remote.json {
        writeln!(out, "{report}")?;
        return Ok(());
    }
    show(out, "server", &report)?;
    if load.bare {
        show(out, "bare handler", &report["bare"])?;
    }
    Ok(())
}

fn show(out: &mut impl Write, name: &str, report: &Value) -> anyhow::Result<()> {
    let (rate, ms) = (&report["eventsPerSecond"], &report["ms"]);
    let (events, requests) = (&report["events"], &report["requests"]);
    writeln!(out, "{name}: {events} events in {requests} requests, {rate} events/s")?;
    let (p50, p90, p99, max) = (&ms["p50"], &ms["p90"], &ms["p99"], &ms["max"]);
    writeln!(out, "  latency: {p50} ms (p50), {p90} (p90), {p99} (p99), {max} (max)")?;
    Ok(())
}

/// Starts an HTTP handler that only parses the body and responds like the server, to measure the
/// limit of the machine.
async fn bare() -> anyhow::Result<String> {
    async fn answer(body: Json<Vec<Value>>) -> Json<Value> {
        let one = json!({ "id": "evt_00000000000000000000", "runs": [] });
        Json(json!({ "events": vec![one; body.len()] }))
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let host = listener.local_addr()?.to_string();
    let router = Router::new().route("/events", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(host)
}

async fn measure(host: &str, remote: &Remote, load: &Load) -> anyhow::Result<Figures> {
    let requests = load.events.div_ceil(load.batch);
    let (next, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let tasks: Vec<_> = (0..load.connections)
        .map(|_| {
            let connection = Connection::new(host, remote, load);
            tokio::spawn(connection.work(next.clone(), done.clone(), requests))
        })
        .collect();
    let progress = Progress::of(requests);
    while done.load(Ordering::Relaxed) < requests && tasks.iter().any(|it| !it.is_finished()) {
        progress.at(done.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await??);
    }
    // Measured until the last response, not until the last poll.
    let seconds = waits.iter().map(|(_, at)| at.duration_since(began)).max().unwrap_or_default();
    let mut waits: Vec<Duration> = waits.into_iter().map(|(wait, _)| wait).collect();
    waits.sort_unstable();
    if waits.is_empty() {
        bail!("--events must be at least 1");
    }
    Ok(Figures { events: requests * load.batch, seconds: seconds.as_secs_f64(), waits })
}

/// One connection. It sends the next request as soon as the response has arrived.
struct Connection {
    host: String,
    head: String,
    name: String,
    batch: u64,
}

/// Latency of a request, and the time of its response.
type Waited = (Duration, Instant);

impl Connection {
    fn new(host: &str, remote: &Remote, load: &Load) -> Self {
        let mut head = format!("POST /events HTTP/1.1\r\nhost: {host}\r\n");
        for (name, value) in remote.headers() {
            head = format!("{head}{name}: {value}\r\n");
        }
        let key = key().map(|key| format!("authorization: Bearer {key}\r\n"));
        let key = key.unwrap_or_default();
        let head = format!("{head}{key}content-type: application/json\r\n");
        Self { host: host.to_owned(), head, name: load.name.clone(), batch: load.batch }
    }

    async fn work(
        self,
        next: Arc<AtomicU64>,
        done: Arc<AtomicU64>,
        requests: u64,
    ) -> anyhow::Result<Vec<Waited>> {
        let socket = TcpStream::connect(&self.host).await;
        let mut socket = socket.map_err(|error| {
            Failure::Unreachable(format!("no server at {}: {error}", self.host))
        })?;
        socket.set_nodelay(true)?;
        let (mut waits, mut buffer) = (Vec::new(), Vec::new());
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= requests {
                return Ok(waits);
            }
            let request = self.request(n * self.batch);
            let began = Instant::now();
            socket.write_all(request.as_bytes()).await?;
            answered(&mut socket, &mut buffer).await?;
            waits.push((began.elapsed(), Instant::now()));
            done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn request(&self, first: u64) -> String {
        let event = |n: u64| json!({ "name": self.name, "data": { "n": n, "key": n % 1000 } });
        let body = Value::from((first..first + self.batch).map(event).collect::<Vec<_>>());
        let body = body.to_string();
        format!("{}content-length: {}\r\n\r\n{body}", self.head, body.len())
    }
}

/// Reads one response, which must be a success.
async fn answered(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    buffer.clear();
    loop {
        if socket.read_buf(buffer).await? == 0 {
            bail!("the server closed a connection");
        }
        let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&buffer[..end])?.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.context("the response has no content-length")?.trim().parse()?;
        while buffer.len() < end + 4 + length {
            if socket.read_buf(buffer).await? == 0 {
                bail!("the server closed a connection");
            }
        }
        if !head.starts_with("http/1.1 2") {
            bail!("{}", String::from_utf8_lossy(&buffer[end + 4..]));
        }
        return Ok(());
    }
}
