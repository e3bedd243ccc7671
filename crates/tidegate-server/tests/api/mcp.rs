//! Model Context Protocol: actions as tools. The tests send single messages.

use serde_json::{Value, json};
use tidegate_core::time::Timestamp;

use crate::{guard::keys, server::Server, target::Target};

/// Test service that fails, streams or succeeds, depending on the path.
async fn service() -> Target {
    let (json, events) = ("application/json", "text/event-stream");
    let streamed = "data: one\n\ndata: {\"n\": 2}\n\nevent: output\ndata: \"whole\"\n\n";
    Target::start(move |call, _| match call.path.as_str() {
        "/fail" => (400, vec![("content-type", json)], r#"{"no": true}"#.to_owned()),
        "/draft" => (200, vec![("content-type", events)], streamed.to_owned()),
        _ => (200, vec![("content-type", json)], r#"{"ok":  true}"#.to_owned()),
    })
    .await
}

fn flows(url: &str) -> String {
    format!(
        r#"
        [[flow]]
        name = "support"
        concurrency = "reject"
        actions.count = {{ url = "{url}/count", schema = {{ type = "integer", minimum = 1 }} }}
        actions.draft = {{ url = "{url}/draft", description = "Drafts a reply." }}
        actions.fail = {{ url = "{url}/fail" }}
        actions.secret = {{ url = "{url}/secret", mcp = false }}
        actions.sync_invoice = {{ url = "{url}/sync", concurrency = {{ policy = "reject", key = "user" }}, idempotency = {{ key = "input.once" }} }}
        [[flow]]
        name = "my_flow"
        [flow.actions.wait]
        url = "{url}/wait"
        concurrency = {{ policy = "queue", key = "user", maxWaitMs = 50 }}
        schema = {{ type = "object", properties = {{ text = {{ type = "string" }} }}, required = ["text"] }}
        [flow.actions.line]
        url = "{url}/line"
        concurrency = {{ policy = "queue", key = "user" }}
        "#
    )
}

fn message(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": params })
}

fn call(tool: &str, arguments: &Value, meta: &Value) -> Value {
    message("tools/call", &json!({ "name": tool, "arguments": arguments, "_meta": meta }))
}

/// Sends a message and returns the answer.
async fn ask(server: &Server, message: Value) -> Value {
    let (status, answer) = server.post("/mcp", message).await;
    assert_eq!((status.as_u16(), &answer["id"]), (200, &json!("q")), "{answer}");
    answer
}

/// Sends a call that fails. Returns the code of the error, and the run that the error names.
async fn refused(server: &Server, message: Value) -> (Value, Value) {
    let answer = ask(server, message).await;
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    let (error, named) = (&result["structuredContent"]["error"], "requestId");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("{}: ", error.as_str().unwrap())), "{answer}");
    (error.clone(), result["structuredContent"][named].clone())
}

/// Framing of the protocol: revisions, invalid messages, and authentication.
#[tokio::test]
async fn messages_of_three_revisions_are_answered() {
    let target = service().await;
    let server = Server::start(&flows(&target.url));
    for (wanted, spoken) in
        [("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")]
    {
        let params = json!({ "protocolVersion": wanted, "capabilities": {}, "clientInfo": {} });
        let reply = ask(&server, message("initialize", &params)).await;
        assert_eq!(reply["result"]["protocolVersion"], spoken);
        assert_eq!(reply["result"]["capabilities"]["tools"]["listChanged"], false);
    }
    assert_eq!(ask(&server, message("ping", &json!({}))).await["result"], json!({}));
    let ping = message("ping", &json!({})).to_string();
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#;
    let (old, new) = ("2025-03-26", "2025-06-18");
    let table: [(&str, &str, u16, &str); 12] = [
        (new, note, 202, ""),
        (new, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 202, ""),
        (new, "{", 400, "-32700"),
        (new, "7", 400, "-32600"),
        (new, r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, "-32600"),
        (new, r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, "-32600"),
        (new, r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, 200, "-32601"),
        (new, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, 200, "-32602"),
        ("2026-07-28", &ping, 400, "-32600"),
        (new, &format!("[{ping}]"), 400, "-32600"),
        (old, &format!("[{note},{ping}]"), 200, r#"[{"jsonrpc":"2.0","id":"q","result":{}}]"#),
        (old, &format!("[{note}]"), 202, ""),
    ];
    for (revision, body, status, said) in table {
        let headers = [("mcp-protocol-version", revision)];
        let answer = server.raw("POST", "/mcp", &headers, body).await.unwrap();
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert!(answer.text.contains(said) && said.is_empty() == answer.text.is_empty(), "{body}");
    }
    for (method, header, status) in [
        ("GET", ("accept", "text/event-stream"), 405),
        ("DELETE", ("accept", "*/*"), 405),
        ("POST", ("host", "evil.example"), 421),
        ("POST", ("origin", "https://evil.example"), 403),
        ("POST", ("tidegate-workspace", "nowhere"), 404),
    ] {
        let answer = server.raw(method, "/mcp", &[header], &ping).await.unwrap();
        assert_eq!(answer.status, status, "{method} {header:?}: {}", answer.text);
    }
}

/// spec mcp, B9, B32, B33: tools are actions, and a call of a tool is arbitrated like any other
/// request.
#[tokio::test]
async fn a_tool_is_an_action_under_its_policy() {
    let target = service().await;
    let server = Server::start(&flows(&target.url));
    let listed = ask(&server, message("tools/list", &json!({}))).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let all = ["my__flow_line", "my__flow_wait", "support_count", "support_draft", "support_fail"];
    assert_eq!(names, [&all[..], &["support_sync_invoice"]].concat());
    assert_eq!(tools[0]["inputSchema"], json!({ "type": "object" }));
    assert_eq!(tools[1]["inputSchema"]["required"], json!(["text"]));
    assert_eq!(tools[2]["inputSchema"]["properties"]["input"]["type"], "integer");
    assert_eq!(tools[3]["description"], "Drafts a reply.");
    assert_eq!(tools[5]["annotations"], json!({ "idempotentHint": true }));
    let rest = ask(&server, message("tools/list", &json!({ "cursor": "support_fail" }))).await;
    assert_eq!(rest["result"]["tools"].as_array().unwrap().len(), 1);
    let answer = ask(&server, call("support_count", &json!({ "input": 7 }), &json!({}))).await;
    let expected = json!({ "type": "text", "text": r#"{"ok":  true}"# });
    assert_eq!(
        answer["result"]["content"],
        json!([expected]),
        "the content must be equal byte for byte: {answer}"
    );
    assert_eq!(answer["result"]["structuredContent"], json!({ "ok": true }));
    let body: Value = serde_json::from_str(&target.calls()[0].body).unwrap();
    assert_eq!((&body["input"], &body["user"]), (&json!(7), &Value::Null));
    assert_eq!(body["metadata"], json!({ "mcp": { "tool": "support_count", "requestId": "q" } }));

    let none = json!({});
    for name in ["support_secret", "support/count", ""] {
        let answer = ask(&server, call(name, &none, &none)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let (code, _) = refused(&server, call("support_count", &json!({ "input": 0 }), &none)).await;
    assert_eq!(code, "bad_input");
    let (code, run) = refused(&server, call("support_fail", &none, &none)).await;
    server.until(run.as_str().unwrap(), "failed").await;
    assert_ne!(code, "failed", "the code must be that of the run's error");
    let (status, answer) = server.post("/flows/support/actions/count", r#"{"input":"x"}"#).await;
    assert_eq!((status.as_u16(), &answer["error"]), (422, &json!("bad_input")), "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains(r#"`input` must have type "integer""#));
    let rehearsal = "/flows/support/actions/count?dryRun=true";
    assert_eq!(server.post(rehearsal, r#"{"input":0}"#).await.1["error"], "bad_input");
    described(&server, &target.url).await;
    arbitrated(&server, &target).await;
}

/// Ingress settings in the config file apply only to the workspace of that file.
#[tokio::test]
async fn a_file_hides_no_tool_of_another_workspace() {
    let target = service().await;
    let url = &target.url;
    let server = Server::start(&format!(
        "workspaces = [\"other\"]\n[[flow]]\nname = \"f\"\n\
         actions.a = {{ url = \"{url}\", mcp = false }}\nactions.b = {{ url = \"{url}\" }}\n"
    ));
    let other = ("tidegate-workspace", "other");
    let definition = json!({ "flow": "f", "name": "a", "url": url }).to_string();
    let put = server.raw("PUT", "/workflows/f%2Fa", &[other], &definition).await.unwrap();
    assert_eq!(put.status, 200, "{}", put.text);
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    for (headers, tool) in [(&[][..], "f_b"), (&[other][..], "f_a")] {
        let answer = server.raw("POST", "/mcp", headers, &list).await.unwrap().json();
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        assert_eq!(tools.map(|it| it["name"].clone()).collect::<Vec<_>>(), [tool], "{answer}");
    }
}

/// Descriptions and schemas of a definition are listed with its tool. Adding them creates no new
/// version.
async fn described(server: &Server, url: &str) {
    let (_, answer) = server.get("/workflows/support%2Fcount").await;
    assert_eq!(answer["schema"], json!({ "type": "integer", "minimum": 1 }), "{answer}");
    for (text, unchanged) in [("Counts.", false), ("Counts again.", true)] {
        let (_, answer) =
            server.put("/workflows/a", json!({ "url": url, "description": text })).await;
        assert_eq!((&answer["version"], &answer["unchanged"]), (&json!(1), &json!(unchanged)));
        assert_eq!(server.get("/workflows/a").await.1["description"], text);
    }
}

/// Two concurrent calls conflict if they have the same user. They cannot conflict by session,
/// because calls have none.
async fn arbitrated(server: &Server, target: &Target) {
    let (none, before) = (json!({}), target.calls().len());
    let by = |user: &str| json!({ "progressToken": 1, "tidegate/user": user });
    target.open(false);
    let sync = |user: &str| call("support_sync_invoice", &json!({ "once": user }), &by(user));
    let first = server.open("/mcp", sync("ada").to_string()).await;
    let _other = server.open("/mcp", sync("bob").to_string()).await;
    let _drafts = [
        server.open("/mcp", call("support_draft", &none, &by("ada")).to_string()).await,
        server.open("/mcp", call("support_draft", &none, &by("ada")).to_string()).await,
    ];
    target.called(before + 4).await;
    let again = call("support_sync_invoice", &json!({ "once": 2 }), &by("ada"));
    let (code, holder) = refused(server, again).await;
    assert_eq!(code, "busy");
    let (status, answer) =
        server.post("/flows/support/actions/sync_invoice", r#"{"user":"ada"}"#).await;
    assert_eq!(
        (status.as_u16(), &answer["requestId"]),
        (409, &holder),
        "a request over HTTP must be rejected too: {answer}"
    );
    let wait = call("my__flow_wait", &json!({ "text": "hi" }), &by("ada"));
    let _holder = server.open("/mcp", wait.to_string()).await;
    target.called(before + 5).await;
    let mut patient = wait;
    patient["params"]["_meta"] = json!({ "tidegate/user": "ada" });
    let answer = ask(server, patient).await;
    let detail = answer["result"]["structuredContent"]["detail"].as_str().unwrap();
    assert!(detail.contains("maxWaitMs"), "{answer}");
    let _line = server.open("/mcp", call("my__flow_line", &none, &by("ada")).to_string()).await;
    let (_, answer) = server.get("/runs?workflow=my_flow/line").await;
    let at = |name: &str| Timestamp::parse_rfc3339(answer["runs"][0][name].as_str().unwrap());
    let wait = at("queuedAt").map(|at| at.plus_ms(30_000));
    assert_eq!(at("dueAt"), wait, "a call must leave the queue after 30 s by default: {answer}");
    target.open(true);
    let text = first.text().await.unwrap();
    assert!(
        text.contains(&format!("\"tidegate/requestId\":{holder}")),
        "the result of run {holder} is missing in {text}"
    );
    assert_eq!(refused(server, sync("ada")).await, (json!("deduped"), holder));
}

/// A long call reports its progress in order. If its client disconnects, the run continues.
#[tokio::test]
async fn a_long_call_tells_of_its_progress() {
    let target = service().await;
    target.open(false);
    let server = Server::start(&flows(&target.url));
    let draft = call("support_draft", &json!({}), &json!({ "progressToken": "p" })).to_string();
    let mut answer = server.open("/mcp", draft.clone()).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    while !text.contains("\"message\":\"running: ") {
        text +=
            std::str::from_utf8(&answer.chunk().await.unwrap().expect("the stream must not end"))
                .unwrap();
    }
    drop(server.open("/mcp", draft).await);
    target.called(2).await;
    target.open(true);
    text += &answer.text().await.unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let messages: Vec<Value> = data.map(|it| serde_json::from_str(it).unwrap()).collect();
    let (end, progress) = messages.split_last().unwrap();
    for (n, message) in progress.iter().enumerate() {
        assert_eq!(message["method"], "notifications/progress", "{text}");
        let reply = [&message["params"]["progress"], &message["params"]["progressToken"]];
        assert_eq!(reply, [&json!(n + 1), &json!("p")], "{text}");
    }
    let chunks: Vec<_> = progress.iter().map(|it| &it["params"]["message"]).collect();
    assert_eq!(chunks[chunks.len() - 2..], ["\"one\"", "{\"n\": 2}"], "{text}");
    assert_eq!((&end["id"], &end["result"]["content"][0]["text"]), (&json!("q"), &json!("whole")));
    let (_, reply) = server.get("/runs?workflow=support/draft").await;
    for run in reply["runs"].as_array().unwrap() {
        server.until(run["id"].as_str().unwrap(), "completed").await;
    }
    assert_eq!(reply["runs"].as_array().unwrap().len(), 2, "{reply}");
}

/// A read-only API key can list tools but not call them. For a call with a full key, the user is
/// the name of the key.
#[tokio::test]
async fn a_key_decides_what_a_client_may_do() {
    let target = service().await;
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("tidegate.db").display());
    let shown = |arguments: &[&str]| format!("Bearer {}", keys(&store, arguments));
    let full = shown(&["create", "--name", "agent"]);
    let look = shown(&["create", "--name", "look", "--read-only"]);
    let server = Server::start_on(&store, &flows(&target.url), &folder.path().join("log"));
    let list = message("tools/list", &json!({})).to_string();
    let call = call("support_sync_invoice", &json!({}), &json!({})).to_string();
    for (key, body, status) in [
        ("", &list, 401),
        (&*look, &list, 200),
        (&*look, &call, 403),
        (&*look, &format!("[{call}]"), 403),
        (&*full, &call, 200),
    ] {
        let answer = server.raw("POST", "/mcp", &[("authorization", key)], body).await.unwrap();
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
    }
    let body: Value = serde_json::from_str(&target.calls()[0].body).unwrap();
    assert_eq!((target.calls().len(), &body["user"]), (1, &json!("agent")));
}
