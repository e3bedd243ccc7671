//! HTTP connections at the byte level.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{guard::keys, server::Server};

/// Test timeout. It is reached only if an expected event never happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a connection and sends a text.
async fn connect(server: &Server, text: &str) -> TcpStream {
    let address = server.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Returns the next answer (status, head in lower case, body), or `None` if the server closes the
/// connection.
async fn answer(stream: &mut TcpStream) -> Option<(u16, String, String)> {
    let read = async {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            bytes.push(stream.read_u8().await.ok()?);
        };
        let head = String::from_utf8(bytes[..head].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await.ok()?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, head, String::from_utf8(body).unwrap()))
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the server must answer or close the connection")
}

/// Whether the server closes the connection.
async fn hangs_up(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    read.expect("the server must close the connection").is_err()
}

/// Returns the head of a request with a body of this length.
fn head(method: &str, path: &str, more: &str, length: usize) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{more}content-length: {length}\r\n\r\n")
}

const GET: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// An error answer that is sent after the whole body keeps the connection open. One that is sent
/// before the end of the body announces that the connection will be closed, and closes it. The
/// client gets both answers.
#[tokio::test]
async fn a_refusal_that_closes_a_connection_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("tidegate.db").display());
    let (full, read) = (
        keys(&store, &["create", "--name", "full"]),
        keys(&store, &["create", "--name", "read", "--read-only"]),
    );
    let server = Server::start_on(&store, "", &folder.path().join("log"));
    let shown = |key: &str, more: &str| format!("authorization: Bearer {key}\r\n{more}");
    for (method, path, more, status) in [
        ("POST", "/events", String::new(), 401),
        ("POST", "/events", shown("tg_a_b", ""), 401),
        ("POST", "/events", shown(&read, ""), 403),
        ("POST", "/events", shown(&full, "content-type: text/plain\r\n"), 415),
        ("POST", "/events", shown(&full, "tidegate-workspace: none\r\n"), 404),
        ("POST", "/nothing", shown(&full, ""), 404),
        ("POST", "/health", String::new(), 405),
        ("POST", "/events?a=b", shown(&full, ""), 422),
    ] {
        let reply = format!("{method} {path} {more}");
        let whole = head(method, path, &more, 20) + &"x".repeat(20);
        let mut stream = connect(&server, &whole).await;
        let (got, said, _) = answer(&mut stream).await.unwrap();
        assert_eq!((got, said.contains("connection: close")), (status, false), "{reply}: {said}");
        stream.write_all(GET.as_bytes()).await.unwrap();
        assert_eq!(
            answer(&mut stream).await.unwrap().0,
            200,
            "{reply}: the next request on the connection must be answered"
        );

        let mut stream = connect(&server, &(head(method, path, &more, 20) + "half")).await;
        let (got, said, _) = answer(&mut stream).await.unwrap();
        assert_eq!((got, said.contains("connection: close")), (status, true), "{reply}: {said}");
        stream.write_all("x".repeat(16).as_bytes()).await.unwrap();
        assert!(hangs_up(&mut stream).await, "{reply}");
    }
    for _ in 0..20 {
        let large = 5 * 1024 * 1024;
        let mut stream = connect(&server, &head("POST", "/events", &shown(&full, ""), large)).await;
        stream.write_all(&vec![b'x'; large]).await.unwrap();
        let (status, said, _) = answer(&mut stream).await.expect("the client must get the answer");
        assert_eq!((status, said.contains("connection: close")), (413, true), "{said}");
    }
}

/// Requests that a proxy may parse differently (request smuggling) are refused, both as the first
/// request of a connection and after others.
#[tokio::test]
async fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let server = Server::start("");
    let chunked = "transfer-encoding: chunked\r\n";
    let body = "{\"name\":\"a\"}";
    let post = format!("{}{body}", head("POST", "/events", "", body.len()));
    let plain = format!(
        "POST /events HTTP/1.1\r\nhost: localhost\r\n{chunked}\r\nc\r\n{body}\r\n0\r\n\r\n"
    );
    let bad = [
        "GET /health HTTP/1.1\r\nhost: localhost\r\nHost: localhost\r\n\r\n".to_owned(),
        "GET /health HTTP/1.1\r\n\r\n".to_owned(),
        "GET /health HTTP/1.1\nhost: localhost\n\n".to_owned(),
        "GET /health HTTP/1.1\r\nhost: localhost\nx: y\r\n\r\n".to_owned(),
        head("POST", "/events", chunked, 3) + "0\r\n\r\n",
        format!(
            "POST /events HTTP/1.1\r\ncontent-length: 5\r\nhost: localhost\r\n{chunked}\r\n\
             0\r\n\r\n"
        ),
    ];
    for before in [vec![], vec![(GET, 200)], vec![(&*post, 202)], vec![(&*plain, 202), (GET, 200)]]
    {
        for bad in &bad {
            let mut stream = connect(&server, "").await;
            for (request, status) in &before {
                stream.write_all(request.as_bytes()).await.unwrap();
                assert_eq!(answer(&mut stream).await.unwrap().0, *status, "{request}");
            }
            stream.write_all(bad.as_bytes()).await.unwrap();
            let (status, said, _) = answer(&mut stream).await.unwrap();
            assert_eq!(
                (status, said.contains("connection: close")),
                (400, true),
                "{bad:?}: {said}"
            );
            assert!(hangs_up(&mut stream).await, "{bad:?}");
        }
    }
    let (_, events) = server.get("/events").await;
    assert_eq!(
        events["events"].as_array().unwrap().len(),
        2 * bad.len(),
        "only valid requests must take effect"
    );
}

/// More clients than the request limit send half a body each; requests of other clients are still
/// answered.
#[tokio::test]
async fn bodies_that_are_half_sent_keep_nobody_out() {
    let server = Server::start("");
    let half = head("POST", "/events", "", 100) + "{\"name\":";
    let large = head("POST", "/events", "", 1024 * 1024) + "{\"name\":";
    let mut held = Vec::new();
    for n in 0..1200 {
        held.push(connect(&server, if n % 2 == 0 { &half } else { &large }).await);
    }
    for _ in 0..3 {
        let (status, reply) = server.post("/events", json!({ "name": "a" })).await;
        assert_eq!(status.as_u16(), 202, "{reply}");
        assert_eq!(server.get("/runs").await.0.as_u16(), 200);
    }
    // When the rest of its body arrives, such a request is handled like any other.
    let rest = "\"b\"".to_owned() + &" ".repeat(88) + "}";
    held[0].write_all(rest.as_bytes()).await.unwrap();
    assert_eq!(answer(&mut held[0]).await.unwrap().0, 202);
}

/// A connection without a request is closed after `keepAliveMs`. For an incomplete first head the
/// timeout is different.
#[tokio::test]
async fn an_idle_connection_lives_as_long_as_the_settings_say() {
    let (short, long) = (Server::start("keepAliveMs = 2000"), Server::start(""));
    let mut slow = connect(&long, "GET /health HTTP/1.1\r\n").await;
    let mut idle = connect(&short, GET).await;
    assert_eq!(answer(&mut idle).await.unwrap().0, 200);
    tokio::select! {
        ended = hangs_up(&mut idle) => assert!(ended),
        _ = hangs_up(&mut slow) => panic!("closed after two seconds, but a first head has ten"),
    }
    let said = Server::refused("keepAliveMs = 0");
    assert!(said.contains("`keepAliveMs` must be a whole number from 1 to 3600000"), "{said}");
}
