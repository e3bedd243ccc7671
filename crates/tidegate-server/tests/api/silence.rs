//! Slow services: the call timeout limits the time without data, not the duration of the whole
//! response.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::server::Server;

/// Service that writes each response in parts, with a pause before each part. After the last part
/// it closes the connection or stays silent.
struct Slow {
    url: String,
    calls: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Script {
    parts: Vec<String>,
    pause: Duration,
    hangs_up: bool,
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

impl Slow {
    async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(answer(stream, script.clone()));
            }
        });
        Self { url, calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn answer(mut stream: TcpStream, script: Script) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await;
    for part in &script.parts {
        tokio::time::sleep(script.pause).await;
        if stream.write_all(part.as_bytes()).await.is_err() {
            return;
        }
    }
    if !script.hangs_up {
        // Waits until the caller gives up and closes the connection.
        let _ = stream.read(&mut request).await;
    }
}

/// A response that takes far longer than the call timeout is passed on completely, with one call.
#[tokio::test]
async fn a_streamed_reply_may_take_longer_than_its_longest_silence() {
    let events = (0..25).map(|n| format!("data: {n}\n\n"));
    // Without chunked encoding, only the event `output` marks the end of the stream.
    let events = events.chain(["event: output\ndata: done\n\n".to_owned()]);
    let parts: Vec<_> = std::iter::once(STREAM.to_owned()).chain(events).collect();
    let script = Script { parts, pause: Duration::from_millis(250), hangs_up: true };
    let slow = Slow::start(script).await;
    let config = format!("[[workflow]]\nname = \"say\"\nurl = \"{}\"", slow.url);
    let server = Server::start_with(&config, &[("TIDEGATE_CALL_TIMEOUT_MS", "5000")]);
    let run = server.start_run("say", json!(1)).await;
    server.until(&run, "completed").await;
    assert_eq!(slow.calls(), 1, "the call must not be repeated");
    let text = server.text(&format!("/runs/{run}/stream")).await;
    let chunks: Vec<usize> =
        text.lines().filter_map(|line| line.strip_prefix("data: ")?.parse().ok()).collect();
    assert_eq!(chunks, (0..25).collect::<Vec<_>>());
}

/// A call times out if the service is silent before its response, or in the middle of a streamed or
/// plain one. It is then retried as the definition says.
#[tokio::test]
async fn a_silent_service_is_given_up() {
    let plain = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
    for (name, parts) in [
        ("no answer", vec![]),
        ("a stream", vec![STREAM.to_owned(), "data: 1\n\n".to_owned()]),
        ("a body", vec![plain.to_owned()]),
    ] {
        let script = Script { parts, pause: Duration::ZERO, hangs_up: false };
        let slow = Slow::start(script).await;
        let server = Server::start(&format!(
            "[[workflow]]\nname = \"say\"\nurl = \"{}\"\ncallTimeoutMs = 150\n\
             retry = {{ maxAttempts = 2, backoffMs = 1 }}",
            slow.url
        ));
        let run = server.start_run("say", json!(1)).await;
        let reply = server.until(&run, "failed").await;
        let message = "the service sent nothing for 150 ms; see `callTimeoutMs`";
        assert_eq!(reply["error"]["code"], "CallTimedOut", "{name}: {reply}");
        assert_eq!(reply["error"]["message"], message, "{name}");
        assert_eq!(slow.calls(), 2, "{name}");
    }
}

/// The `callTimeoutMs` of a definition overrides that of the server.
#[tokio::test]
async fn a_definition_may_allow_a_longer_silence() {
    let parts = vec!["HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n".to_owned(), "done".to_owned()];
    let script = Script { parts, pause: Duration::from_millis(400), hangs_up: true };
    let slow = Slow::start(script).await;
    let config = |name: &str, more: &str| {
        let once = "retry = { maxAttempts = 1 }";
        format!("[[workflow]]\nname = \"{name}\"\nurl = \"{}\"\n{once}\n{more}\n", slow.url)
    };
    let config = config("short", "") + &config("long", "callTimeoutMs = 60000");
    let server = Server::start_with(&config, &[("TIDEGATE_CALL_TIMEOUT_MS", "50")]);
    let long = server.start_run("long", json!(1)).await;
    assert_eq!(server.until(&long, "completed").await["output"], "done");
    let short = server.start_run("short", json!(1)).await;
    assert_eq!(server.until(&short, "failed").await["error"]["code"], "CallTimedOut");
    let said = Server::refused("callTimeoutMs = 7200001");
    assert!(said.contains("`callTimeoutMs` must be a whole number from 1 to 7200000"), "{said}");
}
