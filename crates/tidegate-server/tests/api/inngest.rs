//! Apps that are written with an Inngest SDK: registration, sync and events, with bodies as the SDKs
//! send them. The SDKs themselves run in their own tests.

mod dev;
mod events;
mod signed;
mod sync;

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::server::Server;

/// Returns a function of the app `shop`, as an SDK sends it.
fn function(name: &str, fields: Value) -> Value {
    let id = format!("shop-{name}");
    let mut function = json!({
        "id": id, "name": id, "triggers": [{ "event": format!("shop/{name}") }],
        "steps": { "step": {
            "id": "step", "name": "step", "retries": { "attempts": 4 },
            "runtime": { "type": "http",
                         "url": format!("http://127.0.0.1:9/api/inngest?fnId={id}&stepId=step") },
        } },
    });
    function.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    function
}

/// Returns the body of a registration, as the SDK for JavaScript sends it.
fn app(functions: &[Value]) -> Value {
    json!({
        "url": "http://127.0.0.1:9/api/inngest", "deployType": "ping", "framework": "express",
        "appName": "shop", "functions": functions, "sdk": "js:v4.24.0", "v": "0.1",
        "appVersion": null, "capabilities": { "in_band_sync": "v1", "trust_probe": "v1" },
    })
}

/// Sends a request to an endpoint of the protocol.
async fn ask(
    server: &Server,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: &Value,
) -> (StatusCode, Value) {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut request = client.request(method, format!("{}{path}", server.url()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.body(body.to_string()).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

async fn register(server: &Server, body: &Value) -> (StatusCode, Value) {
    ask(server, (Method::POST, "/fn/register"), &[], body).await
}

/// Sends events with a development key, and returns the answer.
async fn send(server: &Server, headers: &[(&str, &str)], body: &Value) -> (StatusCode, Value) {
    ask(server, (Method::POST, "/e/NO_EVENT_KEY_SET"), headers, body).await
}

/// Returns the definition of a function, or null if there is none.
async fn definition(server: &Server, name: &str) -> Value {
    server.get(&format!("/workflows/{name}?app=shop")).await.1["definition"].clone()
}

/// Returns the number of runs of a function: at most 100.
async fn runs(server: &Server, name: &str) -> usize {
    let (_, page) = server.get(&format!("/runs?workflow={name}&limit=100")).await;
    page["runs"].as_array().unwrap().len()
}

/// Returns the message of an error, after checking that the body repeats the status.
fn message((status, answer): (StatusCode, Value), expected: StatusCode) -> String {
    assert_eq!((status, &answer["status"]), (expected, &json!(expected.as_u16())), "{answer}");
    answer["error"].as_str().expect("a sentence").to_owned()
}
