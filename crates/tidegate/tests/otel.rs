//! OTLP export of spans and metrics. The collector is a minimal server on the loopback interface.

#![allow(clippy::unwrap_used, reason = "a story that cannot continue fails")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::Command,
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tidegate::{
    Ctx, Workflow,
    otel::{self, Guard, Options, OtelError},
    testing::TestHarness,
};
use tracing::Level;
use tracing_subscriber::{layer::SubscriberExt, registry::Registry};

/// A received request: path, content type, and body.
type Post = (String, String, Vec<u8>);

/// Starts a collector that answers every request with this status. Returns its endpoint and the
/// receiver of its requests.
fn collector(status: &'static str) -> (String, Receiver<Post>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (tell, reply) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The request is passed on before it is answered, so that the test has it when the
            // client gets the answer.
            if tell.send(read(&stream)).is_err() {
                return;
            }
            answer(&mut stream, status);
        }
    });
    (endpoint, reply)
}

fn answer(stream: &mut impl Write, status: &str) {
    write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    stream.flush().unwrap();
}

/// Starts a collector with TLS and a certificate for `localhost`. Returns its port and the receiver
/// of its requests.
fn tls_collector() -> (u16, Receiver<Post>) {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("otel/cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("otel/key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, reply) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            // A client that does not trust the certificate closes the connection during the
            // handshake.
            if stream.conn.complete_io(&mut stream.sock).is_err() {
                continue;
            }
            if tell.send(read(&mut stream)).is_err() {
                return;
            }
            answer(&mut stream, "200 OK");
        }
    });
    (port, reply)
}

fn read(stream: impl Read) -> Post {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let (mut length, mut kind) = (0, String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        match line.trim().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("content-type", value)) => value.clone_into(&mut kind),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (path, kind, body)
}

/// Runs one order, and returns the id of its run.
async fn order(harness: &TestHarness) -> String {
    let order = Workflow::new("order", |ctx: Ctx, _: Value| async move {
        ctx.step("pay the bill", || async { Ok(()) }).await
    });
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let posted = engine.send("order", json!({})).await.unwrap();
    harness.settle().await;
    posted.runs[0].verdict.run().unwrap().to_string()
}

/// Runs one order with an exporter. Returns the id of the run and the requests that the collector
/// received.
async fn exported(level: Level) -> (String, Vec<Post>) {
    let (endpoint, answer) = collector("200 OK");
    let options = Options::new(endpoint).service_name("shop").level(level);
    let guard: Guard = otel::start(&options).unwrap();
    let recorder = guard.recorder();
    let run = {
        let _metrics = metrics::set_default_local_recorder(&recorder);
        let subscriber = Registry::default().with(guard.layer());
        let _spans = tracing::subscriber::set_default(subscriber);
        order(&TestHarness::new()).await
    };
    guard.shutdown().unwrap();
    (run, answer.try_iter().collect())
}

fn holds(posts: &[Post], path: &str, text: &str) -> bool {
    let mut bodies = posts.iter().filter(|(at, kind, _)| at == path && kind == PROTOBUF);
    bodies.any(|(_, _, body)| body.windows(text.len()).any(|part| part == text.as_bytes()))
}

const PROTOBUF: &str = "application/x-protobuf";
const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";

#[tokio::test]
async fn spans_with_the_runs_id_and_metrics_arrive_by_the_time_of_the_shutdown() {
    let (run, posts) = exported(Level::DEBUG).await;
    for text in ["shop", "run_id", run.as_str(), "pay the bill", "post"] {
        assert!(holds(&posts, TRACES, text), "the exported spans do not contain {text}");
    }
    for text in [
        "shop",
        "tidegate_admissions_total",
        "verdict",
        "started",
        "tidegate_starts_total",
        "tidegate_hand_off_seconds",
        "tidegate_store_seconds",
        "tidegate_driven_runs",
    ] {
        assert!(holds(&posts, METRICS, text), "the exported metrics do not contain {text}");
    }
}

#[tokio::test]
async fn at_info_there_are_runs_and_no_steps() {
    let (run, posts) = exported(Level::INFO).await;
    assert!(holds(&posts, TRACES, &run));
    assert!(!holds(&posts, TRACES, "pay the bill"));
}

#[tokio::test]
async fn an_installed_export_hears_the_program_and_flushes_when_it_is_dropped() {
    let (endpoint, answer) = collector("200 OK");
    let options = Options::new(endpoint);
    let guard = otel::install(&options).unwrap();
    let again = otel::install(&options).unwrap_err();
    assert!(matches!(again, OtelError::Taken(_)), "{again}");
    let run = order(&TestHarness::new()).await;
    drop(guard);
    let posts: Vec<Post> = answer.try_iter().collect();
    assert!(holds(&posts, TRACES, &run));
    assert!(holds(&posts, METRICS, "tidegate_starts_total"));
}

#[tokio::test]
async fn a_collector_that_refuses_is_told_of_at_the_end() {
    let (endpoint, _told) = collector("400 Bad Request");
    let guard = otel::start(&Options::new(endpoint)).unwrap();
    let recorder = guard.recorder();
    metrics::with_local_recorder(&recorder, || metrics::counter!("orders").increment(1));
    let error = guard.shutdown().unwrap_err().to_string();
    assert!(error.contains("could not be exported"), "{error}");
}

#[test]
fn a_bad_endpoint_is_refused_with_what_is_wrong_with_it() {
    let refused = |endpoint: &str| otel::start(&Options::new(endpoint)).unwrap_err().to_string();
    for (endpoint, reason) in [
        ("", "does not begin with http:// or https://"),
        ("http://", "is no URL"),
        ("http://a b", "is no URL"),
        ("localhost:4318", "does not begin with http:// or https://"),
        ("https://", "is no URL"),
        ("http://collector:4318/?a=b", "has a query"),
    ] {
        let answer = refused(endpoint);
        assert!(answer.contains(&format!("`{endpoint}` {reason}")), "{answer}");
        assert!(answer.contains("such as http://localhost:4318"), "{answer}");
    }
}

/// Environment variable that is set in the child process, which trusts the certificate of this
/// test.
const TRUSTING: &str = "TIDEGATE_TEST_TRUSTING";

fn export_to(endpoint: String) -> Result<(), OtelError> {
    let guard = otel::start(&Options::new(endpoint)).unwrap();
    let recorder = guard.recorder();
    metrics::with_local_recorder(&recorder, || metrics::counter!("orders").increment(1));
    guard.shutdown()
}

/// A process reads the trusted certificates from its environment, so the test starts itself again
/// as another process.
#[tokio::test]
async fn a_collector_with_a_certificate_that_the_system_trusts_is_reached_by_https() {
    if std::env::var_os(TRUSTING).is_none() {
        let test = "a_collector_with_a_certificate_that_the_system_trusts_is_reached_by_https";
        let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/otel/ca.pem");
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", test]).env(TRUSTING, "1").env("SSL_CERT_FILE", authority);
        let output = again.env_remove("SSL_CERT_DIR").env("NO_PROXY", "*").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        return;
    }
    let (port, answer) = tls_collector();
    export_to(format!("https://localhost:{port}")).unwrap();
    let posts: Vec<Post> = answer.try_iter().collect();
    assert!(holds(&posts, METRICS, "orders"));
    // The certificate is for another name.
    let error = export_to(format!("https://127.0.0.1:{port}")).unwrap_err().to_string();
    assert!(error.contains("could not be exported"), "{error}");
    assert_eq!(answer.try_iter().count(), 0);
}
