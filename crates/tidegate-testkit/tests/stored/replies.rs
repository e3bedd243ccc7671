//! Tests the stored form of replies to requests with an idempotency key, for every kind of answer.

use std::sync::Arc;

use expect_test::expect_file;
use serde_json::{Map, Value, json};
use tidegate_core::{
    action::Flow,
    command::{Command, StreamCommand},
    definition::Definition,
    event::NewEvent,
    id::{EventId, RunId},
    idempotency_key::IdempotentRequest,
    overrides::Target,
    reaction::{Filter, Follower, Reaction, Remedy, Repair, StreamSelection},
    request::Request,
    row::{BulkFilter, BulkWhat, Row, SessionOp, SessionRef, Workspace},
    stream::{Commit, NewLogged},
};
use tidegate_store::{ManualClock, MemoryStore, Store, commit};
use tidegate_testkit::sample::payload;

use crate::assert_same;

fn ws() -> Workspace {
    "main".into()
}

fn workflow() -> Box<Definition> {
    let parsed = Definition::parse(&json!({ "name": "work", "concurrency": { "limit": 1 } }));
    Box::new(parsed.expect("the workflow is valid").value)
}

fn register(workflow: Box<Definition>) -> Command {
    Command::Register { ws: ws(), workflow, dev: false }
}

fn request(session: &str) -> Request {
    Request {
        app: "default".to_owned(),
        flow: "chat".to_owned(),
        action: "act".to_owned(),
        input: payload("1"),
        session: Some(session.to_owned()),
        user: None,
        metadata: payload("null"),
        function_key: None,
        max_wait_ms: None,
        deliver: None,
    }
}

fn stream(command: StreamCommand) -> Command {
    Command::Stream { ws: ws(), command }
}

async fn decide(store: &MemoryStore, salt: u64, command: Command) {
    for answer in commit(store, vec![(command, salt)]).await.expect("memory works") {
        answer.expect("the command is not refused");
    }
}

/// Returns commands that change rows, each with the name of its operation.
fn commands(run: RunId, waiting: EventId) -> Vec<(&'static str, Command)> {
    let post = |name: &str| NewEvent {
        name: name.to_owned(),
        data: payload("1"),
        dedupe_id: None,
        ts: None,
        deliver: None,
        attributes: None,
    };
    let (app, name) = (|| "default".to_owned(), || "work".to_owned());
    let event = NewLogged { name: "a".to_owned(), data: payload("1"), meta: payload("{}") };
    let commit = Commit { ws: ws(), stream: "s".to_owned(), events: vec![event], expected: None };
    let reaction =
        Reaction::parse(&json!({ "name": "mail", "source": "*" })).expect("the reaction is valid");
    let (follower, which) = (Follower::from(&reaction), StreamSelection::Where(Filter::default()));
    let repair = Repair { ws: ws(), follower, remedy: Remedy::Prioritize, which };
    let session = SessionRef { app: app(), flow: "chat".to_owned(), id: "s".to_owned() };
    let set = SessionOp::Set { path: None, value: payload("{}") };
    let both = (Box::new(request("t")), Box::new(request("u")));
    let filter = BulkFilter { workflow: Some(name()), ..BulkFilter::default() };
    let target = Box::new(Target { app: app(), workflow: name(), ..Target::default() });
    let purge = Command::Purge { ws: ws(), target, reason: String::new(), if_epoch: None };
    let minute = std::time::Duration::from_secs(60);
    let (reason, event) = (String::new(), waiting);
    let cancel_delivery = Command::CancelDelivery { ws: ws(), event, reason };
    let (later, deferred) = (post("work").delay(minute), request("v").delay(minute));
    vec![
        ("post", Command::Post { ws: ws(), events: vec![post("work"), post("other")] }),
        ("dispatch", Command::Dispatch { ws: ws(), request: request("s") }),
        ("post later", Command::Post { ws: ws(), events: vec![later] }),
        ("dispatch later", Command::Dispatch { ws: ws(), request: deferred }),
        ("cancel delivery", cancel_delivery),
        ("dispatch twice", Command::DispatchThen { ws: ws(), first: both.0, then: both.1 }),
        ("register", register(Box::new(Definition { version: Some(2), ..*workflow() }))),
        ("release", Command::Release { ws: ws(), app: app(), name: name(), version: 1 }),
        ("session", Command::Session { ws: ws(), session, op: set, expected_version: None }),
        ("commit", stream(StreamCommand::Commit(commit))),
        ("repair", stream(StreamCommand::Repair { repair, streams: vec!["s".to_owned()] })),
        ("bulk", Command::Bulk { ws: ws(), what: BulkWhat::Pause, filter }),
        ("purge", purge),
        ("cancel", Command::Cancel { ws: ws(), run, reason: String::new() }),
        ("retire", Command::Retire { ws: ws(), app: app(), name: name() }),
    ]
}

#[tokio::test]
async fn the_kept_answers_are_written_as_agreed() {
    let store = MemoryStore::new(Arc::new(ManualClock::default()));
    decide(&store, 1, register(workflow())).await;
    let flow = Flow::parse(&json!({ "name": "chat", "actions": [{ "name": "act" }] }));
    for action in flow.expect("the flow is valid").value.actions {
        decide(&store, 2, register(Box::new(action))).await;
    }
    let reaction =
        Reaction::parse(&json!({ "name": "mail", "source": "*" })).expect("the reaction is valid");
    decide(&store, 3, stream(StreamCommand::Define(reaction))).await;
    decide(&store, 4, Command::Dispatch { ws: ws(), request: request("r") }).await;
    let rows = store.dump().await.expect("memory works");
    let run = rows.iter().find_map(|row| if let Row::Run(run) = row { Some(run.id) } else { None });
    let later = request("w").delay(std::time::Duration::from_secs(60));
    decide(&store, 5, Command::Dispatch { ws: ws(), request: later }).await;
    let rows = store.dump().await.expect("memory works");
    let event = rows.iter().find_map(|row| {
        if let Row::Event(event) = row { event.is_deferred().then_some(event.id) } else { None }
    });
    let (run, event) = (run.expect("a run exists"), event.expect("a deferred event exists"));
    for (salt, (name, command)) in (10..).zip(commands(run, event)) {
        let asked = IdempotentRequest { ws: ws(), id: name.to_owned(), hash: "00".to_owned() };
        decide(&store, salt, Command::Once { asked, command: Box::new(command) }).await;
    }
    let rows = store.dump().await.expect("memory works");
    let replies = rows.iter().filter_map(|row| {
        let Row::Reply(reply) = row else { return None };
        let answer = reply.answer.as_ref().expect("the reply has an answer");
        let answer: Value = serde_json::from_str(answer.as_str()).expect("an answer is JSON");
        Some((reply.id.clone(), answer))
    });
    assert_same(expect_file!["replies.json"], &replies.collect::<Map<_, _>>().into());
}
