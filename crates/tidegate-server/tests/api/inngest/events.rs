//! Events.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{app, ask, function, message, register, runs, send};
use crate::server::Server;

async fn shop(fields: Value) -> Server {
    let server = Server::start("");
    let (status, answer) = register(&server, &app(&[function("pay", fields)])).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    server
}

fn ids(answer: &Value) -> Vec<String> {
    assert_eq!(answer["status"], 200, "{answer}");
    let ids = answer["ids"].as_array().unwrap().iter();
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// S9: one or many events, as many ids.
#[tokio::test]
async fn each_event_gets_an_id() {
    let server = shop(json!({})).await;
    let event = json!({ "name": "shop/pay", "data": { "n": 1 }, "ts": 1_700_000_000_000_u64,
                        "user": { "id": 7 }, "v": "1", "meta": { "sessions": ["a"] } });
    let (status, one) = send(&server, &[], &event).await;
    assert_eq!((status, ids(&one).len()), (StatusCode::OK, 1));
    assert_eq!(runs(&server, "pay").await, 1);
    // More than fit into one request of our own API.
    let many = json!(vec![event; 1500]);
    let (_, answer) = send(&server, &[], &many).await;
    let mut all = ids(&answer);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 1500);
    assert_eq!(ids(&send(&server, &[], &json!([])).await.1).len(), 0);
    let (_, shown) = server.get(&format!("/events/{}", ids(&one)[0])).await;
    assert_eq!(shown["ts"], "2023-11-14T22:13:20Z", "{shown}");
}

/// S10: the same request with the same seed adds nothing, and gets the same ids.
#[tokio::test]
async fn a_repeated_request_adds_nothing() {
    let server = shop(json!({})).await;
    let seed = [("x-inngest-event-id-seed", "1700000000000,AAECAwQFBgcICQ==")];
    let body = json!([{ "name": "shop/pay" }, { "name": "shop/pay" }]);
    let first = ids(&send(&server, &seed, &body).await.1);
    let again = ids(&send(&server, &seed, &body).await.1);
    assert_eq!((first.clone(), runs(&server, "pay").await), (again, 2));
    let other = [("x-inngest-event-id-seed", "1700000000001,AAECAwQFBgcICQ==")];
    let third = ids(&send(&server, &other, &body).await.1);
    assert_ne!(first, third);
    assert_eq!(runs(&server, "pay").await, 4);
    // More than fit into one command.
    let many = json!(vec![json!({ "name": "other" }); 1500]);
    let first = ids(&send(&server, &seed[..0], &many).await.1);
    assert_ne!(first, ids(&send(&server, &seed[..0], &many).await.1));
    let many_seed = [("x-inngest-event-id-seed", "1700000000002,AAECAwQFBgcICQ==")];
    let first = ids(&send(&server, &many_seed, &many).await.1);
    assert_eq!(first, ids(&send(&server, &many_seed, &many).await.1));
}

/// S11: the same id of an event starts one run.
#[tokio::test]
async fn an_id_is_used_once() {
    let server = shop(json!({})).await;
    let body = json!({ "id": "order-7", "name": "shop/pay" });
    let first = ids(&send(&server, &[], &body).await.1);
    let again = ids(&send(&server, &[], &body).await.1);
    assert_eq!((first, runs(&server, "pay").await), (again, 1));
}

/// S12, and what is no event at all.
#[tokio::test]
async fn reserved_names_are_refused() {
    let server = shop(json!({})).await;
    for (body, said) in [
        (json!({ "name": "inngest/function.failed" }), "names that begin with `inngest/`"),
        (json!([{ "name": "shop/pay" }, { "name": "inngest/x" }]), "`inngest/x` cannot be sent"),
        (json!({ "data": {} }), "missing field `name`"),
        (json!({ "name": "" }), "name"),
        (json!(vec![json!({ "name": "a" }); 5001]), "at most 5000 events"),
    ] {
        let error = message(send(&server, &[], &body).await, StatusCode::BAD_REQUEST);
        assert!(error.contains(said), "{error}");
    }
    assert_eq!(runs(&server, "pay").await, 0);
}

/// S14: a time in the future is the time of delivery.
#[tokio::test]
async fn a_future_event_waits() {
    let server = shop(json!({})).await;
    let later = json!({ "name": "shop/pay", "ts": 4_000_000_000_000_u64 });
    // A year is the longest.
    let error = message(send(&server, &[], &later).await, StatusCode::BAD_REQUEST);
    assert!(error.contains("365 days"), "{error}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tomorrow = now.as_secs() * 1000 + 86_400_000;
    let (_, answer) = send(&server, &[], &json!({ "name": "shop/pay", "ts": tomorrow })).await;
    let (_, page) = server.get("/deferred").await;
    assert_eq!(page["deferred"][0]["id"], ids(&answer)[0], "{page}");
    assert_eq!(runs(&server, "pay").await, 0);
}

/// Pages of this machine may send events, others may not.
#[tokio::test]
async fn pages_may_send_events() {
    let server = shop(json!({})).await;
    let event = json!({ "name": "shop/pay" });
    let raw = server.raw("OPTIONS", "/e/key", &[("origin", "http://localhost:3000")], "").await;
    let raw = raw.unwrap();
    assert_eq!((raw.status, raw.header("access-control-allow-origin")), (204, "*"));
    for (origin, status) in [
        ("http://localhost:3000", StatusCode::OK),
        ("http://127.0.0.1:5173", StatusCode::OK),
        ("https://evil.example", StatusCode::FORBIDDEN),
    ] {
        let answer = send(&server, &[("origin", origin)], &event).await;
        assert_eq!(answer.0, status, "{origin}");
        let register = (Method::POST, "/fn/register");
        let answer = ask(&server, register, &[("origin", origin)], &json!({})).await;
        assert_eq!(answer.0, StatusCode::FORBIDDEN, "{origin}");
    }
}

/// Runs and cancellations of Inngest's API.
#[tokio::test]
async fn runs_are_shown_and_cancelled() {
    let server = shop(json!({ "concurrency": 1 })).await;
    let (_, answer) = send(&server, &[], &json!({ "name": "shop/pay" })).await;
    let event = ids(&answer).remove(0);
    let path = format!("/v1/events/{event}/runs");
    let (status, runs) = ask(&server, (Method::GET, &path), &[], &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{runs}");
    let run = runs["data"][0].clone();
    assert_eq!((&run["function_id"], &run["event_id"]), (&json!("shop-pay"), &json!(event)));
    assert!(runs["metadata"]["fetched_at"].is_string());
    let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
    let (_, shown) = ask(&server, (Method::GET, &path), &[], &json!({})).await;
    assert_eq!(shown["data"]["run_id"], run["run_id"]);
    let many = json!({ "app_id": "shop", "function_id": "shop-pay",
                       "started_before": "2099-01-01T00:00:00Z" });
    let (status, answer) = ask(&server, (Method::POST, "/v1/cancellations"), &[], &many).await;
    assert_eq!((status, &answer["data"]["function_id"]), (StatusCode::OK, &json!("pay")));
    for (method, path, body, status) in [
        (Method::GET, "/v1/runs/x", json!({}), StatusCode::NOT_FOUND),
        (Method::GET, "/v1/events/x/runs", json!({}), StatusCode::NOT_FOUND),
        (Method::POST, "/v1/cancellations", json!({ "if": "true" }), StatusCode::BAD_REQUEST),
        (Method::POST, "/v1/signals", json!({ "signal": "a" }), StatusCode::NOT_FOUND),
        (Method::POST, "/v1/signals", json!({ "data": 1 }), StatusCode::BAD_REQUEST),
        (Method::POST, "/v1/realtime/token", json!({}), StatusCode::NOT_FOUND),
        (Method::GET, "/v0/connect/start", json!({}), StatusCode::NOT_FOUND),
    ] {
        let (found, answer) = ask(&server, (method, path), &[], &body).await;
        assert_eq!((found, &answer["status"]), (status, &json!(status.as_u16())), "{path}");
    }
    let (status, answer) = ask(&server, (Method::GET, "/dev"), &[], &json!({})).await;
    assert_eq!((status, &answer["kind"]), (StatusCode::OK, &json!("dev")));
}

/// S51, S54: a key that is `false` switches its control off, and a priority is computed.
#[tokio::test]
async fn expressions_are_lenient() {
    let fields = json!({
        "singleton": { "mode": "skip", "key": "event.data.user != '' && event.data.user" },
        "priority": { "run": "event.data.plan == 'pro' ? 120 : event.data.nothing" },
    });
    let server = shop(fields).await;
    let sends = async |data: Value| {
        let (_, answer) = send(&server, &[], &json!({ "name": "shop/pay", "data": data })).await;
        let id = ids(&answer).remove(0);
        server.get(&format!("/events/{id}")).await.1["receipts"].clone()
    };
    for _ in 0..3 {
        assert_eq!(sends(json!({ "list": [] })).await, json!([]));
    }
    assert_eq!(runs(&server, "pay").await, 3, "without a user the singleton does not apply");
}
