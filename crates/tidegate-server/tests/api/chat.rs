//! Chat: messages are appended at once, replies run in order.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{server::Server, target::Target};

const MESSAGES: &str = "/flows/chat/sessions/s1/messages";

fn chat(url: &str, respond: &str) -> String {
    format!(
        r#"
        [[flow]]
        name = "chat"
        concurrency = "queue"
        chat = {{ append = "append", respond = "respond" }}
        actions.append = {{ url = "{url}/append", concurrency = "allow" }}
        actions.respond = {{ url = "{url}/respond" {respond} }}
        "#
    )
}

/// spec B34, B35: messages are appended while a reply is running, and each reply starts after the
/// end of the previous one.
#[tokio::test]
async fn messages_land_at_once_and_replies_come_in_order() {
    let kind = ("content-type", "text/event-stream");
    let target = Target::start(move |call, _| {
        if call.path == "/append" {
            return (200, vec![], String::new());
        }
        let input: Value = serde_json::from_str(&call.body).unwrap();
        (200, vec![kind], format!("data: re {}\n\n", input["input"]))
    });
    let target = target.await;
    target.shut("/respond", true);
    let server = Server::start(&chat(&target.url, ""));
    let path = "/flows/chat/sessions/s1/messages";
    let mut open = Vec::new();
    for n in 0..5 {
        open.push(server.open(path, json!({ "input": n }).to_string()).await);
    }
    let appended = target.calls().iter().filter(|call| call.path == "/append").count();
    assert_eq!(appended, 5, "all messages must be appended while the first reply is running");
    target.shut("/respond", false);
    for (n, answer) in open.into_iter().enumerate() {
        let text = answer.text().await.unwrap();
        assert!(text.starts_with("event: accepted\n"), "{text}");
        assert!(
            text.contains(&format!("data: \"re {n}\"")) && text.contains("event: end"),
            "{text}"
        );
    }
    let calls = target.calls();
    let replies = calls.iter().filter(|call| call.path == "/respond");
    let order: Vec<Value> = replies
        .map(|call| serde_json::from_str::<Value>(&call.body).unwrap()["input"].clone())
        .collect();
    assert_eq!(order, [0, 1, 2, 3, 4].map(Value::from));
}

/// spec chat: if the reply is rejected, the answer says so, and says that the message was appended.
/// A message that cannot be appended gets no reply.
#[tokio::test]
async fn a_refused_reply_leaves_the_message_in() {
    let target = Target::start(|call, _| {
        let status = if call.body.contains("bad") { 400 } else { 200 };
        (status, vec![], String::new())
    });
    let target = target.await;
    target.shut("/respond", true);
    let server = Server::start(&chat(&target.url, ", concurrency = \"reject\""));
    let path = "/flows/chat/sessions/s1/messages";
    let first = server.open(path, "{}".to_owned()).await;
    assert_eq!(first.status(), StatusCode::OK);
    let (status, answer) = server.post(path, "{}").await;
    assert_eq!((status, &answer["appended"]), (StatusCode::CONFLICT, &json!(true)), "{answer}");
    let (status, answer) = server.post(path, json!({ "input": "bad" })).await;
    assert_eq!((status.as_u16(), &answer["error"]), (502, &json!("not_appended")), "{answer}");
    let (status, answer) =
        server.post("/flows/chat/sessions/s2/messages", json!({ "input": "bad" })).await;
    assert_eq!((status.as_u16(), &answer["error"]), (502, &json!("not_appended")), "{answer}");
    let (_, answer) = server.get("/runs?workflow=chat%2Frespond&state=cancelled").await;
    assert_eq!(
        answer["runs"].as_array().unwrap().len(),
        1,
        "the reply to the message that was not appended must be cancelled: {answer}"
    );
    let (status, answer) = server.post("/flows/other/sessions/s1/messages", "").await;
    assert_eq!((status.as_u16(), &answer["error"]), (404, &json!("no_chat")), "{answer}");
    target.shut("/respond", false);
}

/// A message whose run is cancelled is not appended, and gets no reply.
#[tokio::test]
async fn a_cancelled_message_is_not_in() {
    let target = Target::start(|_, _| (200, vec![], String::new())).await;
    target.shut("/append", true);
    let server = Server::start(&chat(&target.url, ""));
    let cancelled = async {
        target.called(1).await;
        let (_, answer) = server.get("/runs?workflow=chat%2Fappend").await;
        let run = answer["runs"][0]["id"].as_str().unwrap().to_owned();
        server.post(&format!("/runs/{run}/cancel"), json!({ "reason": "not now" })).await;
    };
    let ((status, answer), ()) = tokio::join!(server.post(MESSAGES, "{}"), cancelled);
    assert_eq!((status.as_u16(), &answer["error"]), (502, &json!("not_appended")), "{answer}");
    assert_eq!(
        (&answer["appended"], &answer["detail"]),
        (&json!(false), &json!("not now")),
        "{answer}"
    );
    assert_eq!(replies(&target), [Value::Null; 0]);
}

/// Returns the inputs of the replies that were called, in order.
fn replies(target: &Target) -> Vec<Value> {
    let calls = target.calls();
    let replies = calls.iter().filter(|call| call.path == "/respond");
    replies
        .map(|call| serde_json::from_str::<Value>(&call.body).unwrap()["input"].clone())
        .collect()
}

/// Sends messages whose append calls are held open, and closes each connection once its append is
/// called.
async fn say_and_leave(server: &Server, target: &Target, messages: usize) {
    target.shut("/append", true);
    for n in 0..messages {
        let sent = server.open(MESSAGES, json!({ "input": n }).to_string());
        tokio::select! {
            () = target.called(n + 1) => {}
            answer = sent => panic!("the message was answered before its append ended: {answer:?}"),
        }
    }
}

/// spec chat: messages are answered in order, even if their senders disconnect.
#[tokio::test]
async fn a_sender_who_leaves_is_answered() {
    let target = Target::start(|_, _| (200, vec![], String::new())).await;
    let server = Server::start(&chat(&target.url, ""));
    say_and_leave(&server, &target, 3).await;
    target.shut("/append", false);
    target.called(6).await;
    assert_eq!(replies(&target), [0, 1, 2].map(Value::from));
}

/// A server that is killed between message and reply loses neither: each message is answered once,
/// in the order of acceptance.
#[tokio::test]
async fn a_crash_between_message_and_reply_loses_neither() {
    let target = Target::start(|_, _| (200, vec![], String::new())).await;
    let mut server = Server::start_on_file(&chat(&target.url, ""));
    say_and_leave(&server, &target, 4).await;
    server.kill();
    target.shut("/append", false);
    server.restart();
    while replies(&target).len() < 4 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(replies(&target), [0, 1, 2, 3].map(Value::from));
    let (_, answer) = server.get("/runs?workflow=chat%2Frespond").await;
    for run in answer["runs"].as_array().unwrap() {
        server.until(run["id"].as_str().unwrap(), "completed").await;
    }
    assert_eq!(replies(&target).len(), 4, "each message must be answered once");
}

/// All chunks of a reply reach its readers, even if many are emitted at once. A reader that
/// reconnects continues after its last chunk.
#[tokio::test]
async fn the_last_of_a_reply_is_heard() {
    let kind = ("content-type", "text/event-stream");
    let chunks: Vec<String> = (0..250).map(|n| format!("part {n}")).collect();
    let body = chunks.iter().fold(String::new(), |body, it| body + "data: " + it + "\n\n");
    let target = Target::start(move |call, _| match call.path.as_str() {
        "/append" => (200, vec![], String::new()),
        _ => (200, vec![kind], body.clone()),
    })
    .await;
    target.shut("/respond", true);
    let server = Server::start(&chat(&target.url, ""));
    let answer = server.open(MESSAGES, json!({ "input": 1 }).to_string()).await;
    target.called(2).await;
    target.shut("/respond", false);
    let live = answer.text().await.unwrap();
    let heard = |text: &str| -> Vec<String> {
        let data = text.lines().filter_map(|line| line.strip_prefix("data: \""));
        data.filter_map(|text| Some(text.strip_suffix('"')?.to_owned())).collect()
    };
    assert_eq!(heard(&live), chunks, "wrong chunks on the connection that sent the message");
    let accepted = live.lines().nth(1).unwrap().strip_prefix("data: ").unwrap();
    let accepted: Value = serde_json::from_str(accepted).unwrap();
    let [reply, append] = ["requestId", "appendRequestId"].map(|it| accepted[it].as_str().unwrap());
    assert_eq!(accepted["appended"], true, "{accepted}");
    for (run, workflow) in [(reply, "chat/respond"), (append, "chat/append")] {
        assert_eq!(server.get(&format!("/runs/{run}")).await.1["workflow"], workflow);
    }
    let path = format!("/runs/{reply}/stream");
    assert_eq!(heard(&server.text(&path).await), chunks, "after its end");
    let ids: Vec<_> = live.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    for place in [0, 120, 249] {
        let text = server.read_along(&path, Some(ids[place]), "event: end", async || {}).await;
        assert_eq!(heard(&text), chunks[place + 1..], "behind {place}");
    }
}
