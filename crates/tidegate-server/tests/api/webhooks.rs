//! Webhooks: signed deliveries, arbitrated like any request.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    fleet::{Fleet, On},
    server::Server,
    target::Target,
};

const SECRETS: [(&str, &str); 2] =
    [("GITHUB_SECRET", "new,old"), ("STRIPE_SECRET", "whsec_c3RyaXBl")];

fn flow(url: &str) -> String {
    format!(
        r#"
        [[flow]]
        name = "repo"
        concurrency = "reject"
        actions.onPush = {{ url = "{url}/push", concurrency = {{ policy = "reject", key = "metadata.webhook.deliveryId" }}, idempotency = {{ key = "metadata.webhook.deliveryId" }} }}
        actions.onAny = {{ url = "{url}/any" }}
        actions.onPaid = {{ url = "{url}/paid", rateLimit = {{ limit = 1, perMs = 3600000 }} }}
        webhooks.push = {{ action = "onPush", scheme = "github", secretEnv = "GITHUB_SECRET", events = ["push"], session = "repository.full_name", user = "sender.login" }}
        webhooks.any = {{ action = "onAny", scheme = "github", secretEnv = "GITHUB_SECRET", session = "repository.full_name" }}
        webhooks.paid = {{ action = "onPaid", scheme = "stripe", secretEnv = "STRIPE_SECRET" }}
        "#
    )
}

fn hex(secret: &[u8], signed: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(signed.as_bytes());
    mac.finalize().into_bytes().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// Sends a delivery in GitHub's format.
async fn deliver(server: &Server, name: &str, id: &str, body: &Value) -> (StatusCode, Value) {
    let body = body.to_string();
    let signature = format!("sha256={}", hex(b"old", &body));
    let headers = [
        ("x-hub-signature-256", signature.as_str()),
        ("x-github-delivery", id),
        ("x-github-event", "push"),
    ];
    server.post_with(&format!("/webhooks/repo/{name}"), &headers, body).await
}

/// spec N42, B31, B37: a signed delivery is accepted, with session, user and the delivery id of the
/// sender. A delivery that was changed or not signed, or is for an unknown webhook, is refused.
#[tokio::test]
async fn a_signed_delivery_is_a_request() {
    let target = Target::kind().await;
    target.open(false);
    let server = Server::start_with(&flow(&target.url), &SECRETS);
    let body = json!({ "repository": { "full_name": "a/b" }, "sender": { "login": "ann" } });
    let (status, first) = deliver(&server, "push", "d1", &body).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{first}");
    target.called(1).await;
    let call: Value = serde_json::from_str(&target.calls()[0].body).unwrap();
    let webhook = json!({ "name": "push", "deliveryId": "d1", "event": "push" });
    assert_eq!(call["metadata"]["webhook"], webhook);
    assert_eq!((&call["session"]["id"], &call["user"]), (&json!("a/b"), &json!("ann")));
    assert_eq!(call["input"], body);
    let (status, again) = deliver(&server, "push", "d1", &body).await;
    assert_eq!((status, again["status"].as_str()), (StatusCode::OK, Some("deduped")), "{again}");
    assert_eq!(again["requestId"], first["requestId"]);
    let (_, holder) = deliver(&server, "any", "d2", &body).await;
    let (status, answer) = deliver(&server, "any", "d3", &body).await;
    assert_eq!((status, answer["status"].as_str()), (StatusCode::OK, Some("skipped")), "{answer}");
    assert_eq!(answer["requestId"], holder["requestId"]);
    let table = [
        ("/webhooks/repo/push", "x-hub-signature-256", "sha256=00", 401, "bad_signature"),
        ("/webhooks/repo/push", "x-other", "1", 401, "bad_signature"),
        ("/webhooks/repo/pull", "x-other", "1", 404, "no_webhook"),
        ("/webhooks/none/push", "x-other", "1", 404, "no_webhook"),
    ];
    for (path, header, value, status, code) in table {
        let (got, answer) = server.post_with(path, &[(header, value)], "{}".to_owned()).await;
        assert_eq!((got.as_u16(), answer["error"].as_str()), (status, Some(code)), "{answer}");
    }
    let signature = format!("sha256={}", hex(b"new", "{}"));
    let signed = ("x-hub-signature-256", signature.as_str());
    for headers in [&[signed, ("x-github-event", "star")][..], &[signed]] {
        let (status, answer) =
            server.post_with("/webhooks/repo/push", headers, "{}".to_owned()).await;
        assert_eq!((status, &answer["status"]), (StatusCode::ACCEPTED, &json!("ignored")));
    }
    target.open(true);
}

/// spec B41: a delivery that is sent three times at the same time and once more later starts one
/// run.
async fn a_delivery_that_is_sent_again_runs_once(on: On) {
    let target = Target::kind().await;
    let Some(fleet) = Fleet::start(on, &flow(&target.url), &SECRETS).await else { return };
    let body = json!({ "repository": { "full_name": "a/b" } });
    for n in 0..100 {
        let id = format!("d{n}");
        let send = || deliver(fleet.next(), "push", &id, &body);
        let all = tokio::join!(send(), send(), send());
        let statuses = [all.0.0, all.1.0, all.2.0];
        assert_eq!(statuses.iter().filter(|it| **it == StatusCode::ACCEPTED).count(), 1);
    }
    target.called(100).await;
    for n in 0..100 {
        let (status, answer) = deliver(fleet.next(), "push", &format!("d{n}"), &body).await;
        assert_eq!((status, answer["status"] == "deduped"), (StatusCode::OK, true), "{answer}");
    }
    let (_, answer) = fleet.next().get("/runs?limit=500").await;
    assert_eq!(answer["runs"].as_array().unwrap().len(), 100);
    assert_eq!(target.calls().len(), 100);
}

#[tokio::test]
async fn a_delivery_that_is_sent_again_runs_once_on_a_file() {
    a_delivery_that_is_sent_again_runs_once(On::File).await;
}

#[tokio::test]
async fn a_delivery_that_is_sent_again_runs_once_on_two_servers() {
    a_delivery_that_is_sent_again_runs_once(On::Postgres).await;
}

/// A delivery with an old timestamp is refused, even if its signature is valid. An exceeded rate
/// limit is answered with its own status, so that the sender retries.
#[tokio::test]
async fn an_old_delivery_is_refused_and_a_limit_is_told() {
    let target = Target::kind().await;
    let server = Server::start_with(&flow(&target.url), &SECRETS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let send = async |at: u64| {
        let body = r#"{"id": "evt_1", "type": "paid"}"#.to_owned();
        let signature = format!("t={at},v1={}", hex(b"whsec_c3RyaXBl", &format!("{at}.{body}")));
        let headers = [("stripe-signature", signature.as_str())];
        server.post_with("/webhooks/repo/paid", &headers, body).await
    };
    let (status, answer) = send(now - 1000).await;
    assert_eq!((status.as_u16(), &answer["error"]), (401, &json!("bad_signature")), "{answer}");
    assert_eq!(send(now).await.0, StatusCode::ACCEPTED);
    let (status, answer) = send(now).await;
    assert_eq!((status.as_u16(), &answer["error"]), (429, &json!("rate_limited")), "{answer}");
}

/// Slack's URL verification is answered only if Slack has signed it: otherwise anyone could make
/// the server return any text.
#[tokio::test]
async fn a_challenge_is_answered_only_if_it_is_signed() {
    let config = "[[flow]]\nname = \"f\"\nactions.a = { url = \"http://localhost\" }\n\
                  webhooks.slack = { action = \"a\", scheme = \"slack\", secretEnv = \"SLACK\" }";
    let server = Server::start_with(config, &[("SLACK", "secret")]);
    let body = json!({ "type": "url_verification", "challenge": "c4" }).to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().to_string();
    for (secret, status) in [("secret", 200), ("other", 401)] {
        let signature = format!("v0={}", hex(secret.as_bytes(), &format!("v0:{now}:{body}")));
        let headers =
            [("x-slack-request-timestamp", now.as_str()), ("x-slack-signature", &*signature)];
        let (got, answer) = server.post_with("/webhooks/f/slack", &headers, body.clone()).await;
        assert_eq!(got.as_u16(), status, "{answer}");
        assert_eq!(answer["challenge"] == "c4", status == 200, "{answer}");
    }
    let (status, answer) = server.post_with("/webhooks/f/slack", &[], body.clone()).await;
    assert_eq!((status.as_u16(), &answer["error"]), (401, &json!("bad_signature")), "{answer}");
}
