//! Keys: S61 and S63, as far as the server is concerned.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{app, ask, function, message, register};
use crate::{server::Server, target::Target};

const KEY: &str = "signkey-prod-0011223344556677";
const HEX: &str = "0011223344556677";
const OLD: &str = "signkey-prod-8899aabbccddeeff";

fn digest(hex: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(HEXLOWER.decode(hex.as_bytes()).unwrap()))
}

fn variables() -> [(&'static str, &'static str); 3] {
    [
        ("INNGEST_SIGNING_KEY", KEY),
        ("INNGEST_SIGNING_KEY_FALLBACK", OLD),
        ("INNGEST_EVENT_KEY", "first, second"),
    ]
}

/// A registration needs the digest of a signing key, events need an event key.
#[tokio::test]
async fn callers_must_have_a_key() {
    let server = Server::start_with("", &variables());
    let body = app(&[function("pay", json!({}))]);
    let unsigned = register(&server, &body).await;
    let error = message(unsigned, StatusCode::UNAUTHORIZED);
    assert_eq!(error, "the signing key is not one of this server");
    let new = digest(HEX);
    for (bearer, status) in [
        (new.clone(), StatusCode::OK),
        (format!("signkey-prod-{new}"), StatusCode::OK),
        (digest("8899aabbccddeeff"), StatusCode::OK),
        (KEY.to_owned(), StatusCode::UNAUTHORIZED),
        (digest("00112233445566"), StatusCode::UNAUTHORIZED),
        ("undefined".to_owned(), StatusCode::UNAUTHORIZED),
    ] {
        let bearer = format!("Bearer {bearer}");
        let header = [("authorization", bearer.as_str())];
        let answer = ask(&server, (Method::POST, "/fn/register"), &header, &body).await;
        assert_eq!(answer.0, status, "{bearer}: {}", answer.1);
    }
    // With checkpoints the SDK for Go sends the key itself. The run does not exist.
    for (bearer, status) in [
        (KEY, StatusCode::NOT_FOUND),
        (OLD, StatusCode::NOT_FOUND),
        (new.as_str(), StatusCode::NOT_FOUND),
        ("signkey-prod-1234", StatusCode::UNAUTHORIZED),
    ] {
        let bearer = format!("Bearer {bearer}");
        let header = [("authorization", bearer.as_str())];
        let path = (Method::POST, "/v1/checkpoint/x/async");
        assert_eq!(ask(&server, path, &header, &json!({})).await.0, status, "{bearer}");
    }
    for (key, status) in
        [("first", StatusCode::OK), ("second", StatusCode::OK), ("third", StatusCode::UNAUTHORIZED)]
    {
        let path = format!("/e/{key}");
        let answer = ask(&server, (Method::POST, &path), &[], &json!({ "name": "a" })).await;
        assert_eq!(answer.0, status, "{key}");
    }
    let open = server.raw("GET", "/dev", &[], "").await.unwrap();
    assert_eq!((open.status, open.header("x-inngest-server-kind")), (200, "cloud"));
    for path in ["/v1/runs/x", "/v1/events/x/runs"] {
        let answer = ask(&server, (Method::GET, path), &[], &Value::Null).await;
        assert_eq!(answer.0, StatusCode::UNAUTHORIZED, "{path}");
    }
}

/// The server signs its sync with the first key.
#[tokio::test]
async fn a_sync_is_signed() {
    let target = Target::start(|_, _| (200, vec![("x-inngest-sdk", "js:v4")], "{}".to_owned()));
    let target = target.await;
    let config = format!("[inngest]\napps = [\"{}/api/inngest\"]\n", target.url);
    let _server = Server::start_with(&config, &variables());
    target.called(1).await;
    let call = &target.calls()[0];
    assert_eq!(call.header("x-inngest-server-kind"), "cloud");
    let signature = call.header("x-inngest-signature");
    let (at, mac) = signature.strip_prefix("t=").unwrap().split_once("&s=").unwrap();
    let mut expected = Hmac::<Sha256>::new_from_slice(HEX.as_bytes()).unwrap();
    expected.update(call.body.as_bytes());
    expected.update(at.as_bytes());
    assert_eq!(mac, HEXLOWER.encode(&expected.finalize().into_bytes()));
}

/// A server with API keys and without keys of SDKs is closed to SDKs.
#[tokio::test]
async fn api_keys_close_the_endpoints_of_sdks() {
    let server = Server::start("");
    server.post("/keys", json!({ "name": "admin" })).await;
    for (method, path) in [(Method::POST, "/fn/register"), (Method::POST, "/e/key")] {
        let answer = ask(&server, (method, path), &[], &json!({ "name": "a" })).await;
        let error = message(answer, StatusCode::UNAUTHORIZED);
        assert!(error.contains("set INNGEST_SIGNING_KEY and INNGEST_EVENT_KEY"), "{error}");
    }
}

/// An environment is a workspace that the server serves.
#[tokio::test]
async fn an_environment_is_a_workspace() {
    let server = Server::start("workspaces = [\"branch\"]\n");
    let body = app(&[function("pay", json!({}))]);
    let env = |name| [("x-inngest-env", name)];
    let there = ask(&server, (Method::POST, "/fn/register"), &env("branch"), &body).await;
    assert_eq!(there.0, StatusCode::OK, "{}", there.1);
    let raw = server.raw("GET", "/workflows", &[("tidegate-workspace", "branch")], "").await;
    assert_eq!(raw.unwrap().json()["workflows"][0]["name"], "pay");
    assert_eq!(server.get("/workflows").await.1["workflows"], json!([]));
    let unknown = ask(&server, (Method::POST, "/e/key"), &env("none"), &json!({})).await;
    let error = message(unknown, StatusCode::BAD_REQUEST);
    assert!(error.contains("no environment `none`: add it to its setting `workspaces`"), "{error}");
}
