//! A proxy between a store and its server that injects faults at COMMIT and counts round trips.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// Fault that the proxy injects at the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server gets the COMMIT, but the store never gets the answer.
    CutAfter,
    /// The server does not get the COMMIT, and its connection is closed.
    CutBefore,
    /// The server does not get the COMMIT, and its connection stays open.
    Vanish,
    /// The transaction fails before the COMMIT, and the store does not get the error.
    FailBefore,
}

/// Proxy between a store and its server.
pub(crate) struct Proxy {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    server: Mutex<String>,
    /// Whether new connections are refused.
    shut: AtomicBool,
    next: Mutex<Option<Fault>>,
    flights: AtomicU64,
}

impl Proxy {
    /// Opens a proxy in front of the server at `url`.
    pub(crate) async fn new(url: &str) -> Self {
        let (before, rest) = url.rsplit_once('@').unwrap();
        let (_, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            server: Mutex::new(server_of(url)),
            shut: AtomicBool::new(false),
            next: Mutex::default(),
            flights: AtomicU64::new(0),
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = serving.server.lock().unwrap().clone();
                if serving.shut.load(Ordering::SeqCst) {
                    continue;
                }
                // If the server cannot be reached, the client's connection is closed at once.
                if let Ok(server) = TcpStream::connect(&server).await {
                    tokio::spawn(pass(client, server, serving.clone()));
                }
            }
        });
        let database = database.split('?').next().unwrap();
        Self { url: format!("{before}@{here}/{database}?sslmode=disable"), shared }
    }

    /// Refuses new connections.
    pub(crate) fn shut(&self) {
        self.shared.shut.store(true, Ordering::SeqCst);
    }

    /// Accepts new connections, to the server at `url`.
    pub(crate) fn open(&self, url: &str) {
        *self.shared.server.lock().unwrap() = server_of(url);
        self.shared.shut.store(false, Ordering::SeqCst);
    }

    /// Waits until the fault that was set has been injected.
    pub(crate) async fn struck(&self) {
        let begun = std::time::Instant::now();
        while self.shared.next.lock().unwrap().is_some() {
            let in_time = begun.elapsed() < crate::rig::STUCK;
            assert!(in_time, "the proxy has seen no COMMIT to inject the fault at");
            tokio::task::yield_now().await;
        }
    }

    /// Sets the fault of the next COMMIT.
    pub(crate) fn at_next_commit(&self, fault: Fault) {
        *self.shared.next.lock().unwrap() = Some(fault);
    }

    /// Returns the number of flights: how often a client has sent a request while no answer was
    /// outstanding.
    pub(crate) fn flights(&self) -> u64 {
        self.shared.flights.load(Ordering::SeqCst)
    }
}

/// Returns the host and port of a URL.
fn server_of(url: &str) -> String {
    let (_, rest) = url.rsplit_once('@').unwrap();
    rest.split_once('/').unwrap().0.to_owned()
}

/// State of one connection, shared by its two directions.
#[derive(Default)]
struct Counts {
    /// Number of requests that the server answers with "ready for query".
    asked: u64,
    answered: u64,
    /// Whether the client is in the middle of a request.
    within: bool,
    /// Whether the next error, up to the end of its answer, is not forwarded to the client.
    swallow: bool,
    swallowing: bool,
}

async fn pass(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let counts = Arc::new(Mutex::new(Counts::default()));
    let back = tokio::spawn(backward(from_server, to_client, shared.clone(), counts.clone()));
    let fault = forward(from_client, to_server, &shared, &counts).await;
    match fault {
        // No further answers are forwarded, because they would reveal the outcome.
        Some((Fault::Vanish | Fault::CutAfter, to_server)) => {
            back.abort();
            // Leaked, so that the connection to the server stays open until the test ends: the
            // server must not notice that the client is gone before it has read all requests.
            std::mem::forget(to_server);
        }
        Some(_) => back.abort(),
        None => {}
    }
}

/// Forwards requests until the client ends, or until a fault ends the connection.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    counts: &Mutex<Counts>,
) -> Option<(Fault, OwnedWriteHalf)> {
    let length = from.read_u32().await.ok()?;
    let mut startup = vec![0; length as usize - 4];
    from.read_exact(&mut startup).await.ok()?;
    counts.lock().unwrap().asked += 1;
    to.write_u32(length).await.ok()?;
    to.write_all(&startup).await.ok()?;
    loop {
        let message = message(&mut from).await?;
        let commit = is_commit(&message);
        let fault = if commit { take_fault(shared, counts) } else { None };
        match fault {
            None => {}
            Some(Fault::CutAfter) => {
                to.write_all(&message).await.ok()?;
                pass_flight(message[0], &mut from, &mut to).await?;
                return Some((Fault::CutAfter, to));
            }
            Some(fault @ (Fault::CutBefore | Fault::Vanish)) => return Some((fault, to)),
            Some(Fault::FailBefore) => {
                {
                    let mut counts = counts.lock().unwrap();
                    counts.swallow = true;
                    counts.asked += 1;
                }
                to.write_all(b"Q\0\0\0\x0fselect 1/0\0").await.ok()?;
            }
        }
        count(&message, shared, &mut counts.lock().unwrap());
        to.write_all(&message).await.ok()?;
    }
}

/// Takes the fault of a COMMIT. From a cut on, the answers of its flight are not forwarded.
fn take_fault(shared: &Shared, counts: &Mutex<Counts>) -> Option<Fault> {
    let mut counts = counts.lock().unwrap();
    let fault = shared.next.lock().unwrap().take();
    counts.swallowing |= fault == Some(Fault::CutAfter);
    fault
}

/// Forwards the remaining messages of the flight of a COMMIT, up to the Sync.
async fn pass_flight(
    mut kind: u8,
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
) -> Option<()> {
    while kind != b'Q' && kind != b'S' {
        let message = message(from).await?;
        to.write_all(&message).await.ok()?;
        kind = message[0];
    }
    Some(())
}

/// Returns whether a message is a COMMIT: an unnamed statement in a flight, or a simple query.
fn is_commit(message: &[u8]) -> bool {
    let alone = message[0] == b'Q' && message[5..].starts_with(b"select; commit");
    alone || (message[0] == b'P' && message[5..].starts_with(b"\0commit\0"))
}

/// Counts flights: a flight begins with a message that is sent while no answer is outstanding.
fn count(message: &[u8], shared: &Shared, counts: &mut Counts) {
    let begins = !std::mem::replace(&mut counts.within, true);
    if begins && counts.asked == counts.answered {
        shared.flights.fetch_add(1, Ordering::SeqCst);
    }
    if message[0] == b'Q' || message[0] == b'S' {
        counts.asked += 1;
        counts.within = false;
    }
}

/// Forwards answers, except one that is withheld by `swallow`. An error before a COMMIT that is to
/// be cut is withheld, too: the server sends it at once, and it would reveal the outcome.
async fn backward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: Arc<Shared>,
    counts: Arc<Mutex<Counts>>,
) {
    while let Some(message) = message(&mut from).await {
        let swallowed = {
            let mut counts = counts.lock().unwrap();
            let reveals = || *shared.next.lock().unwrap() == Some(Fault::CutAfter);
            if message[0] == b'E' && (std::mem::take(&mut counts.swallow) || reveals()) {
                counts.swallowing = true;
            }
            let swallowed = counts.swallowing;
            if message[0] == b'Z' {
                counts.answered += 1;
                counts.swallowing = false;
            }
            swallowed
        };
        if !swallowed && to.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Reads one message: its type, its length and its contents.
async fn message(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let kind = from.read_u8().await.ok()?;
    let length = from.read_u32().await.ok()?;
    let mut message = vec![kind];
    message.extend(length.to_be_bytes());
    message.resize(1 + length as usize, 0);
    from.read_exact(&mut message[5..]).await.ok()?;
    Some(message)
}
