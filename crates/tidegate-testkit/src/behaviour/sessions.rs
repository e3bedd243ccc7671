//! Session state: operations are applied exactly once, and no update is lost.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    json::Payload,
    row::{Row, RowKey, SessionRef, StepKind},
    run::record::{Recorded, Then},
    session::{MAX_SESSION_BYTES, NewSessionOp, Outcome, SessionError},
};

use crate::world::{World, append, get, increment, merge, payload, session, set};

/// Defines a flow: `append` and `plain` have the policy `allow`, `respond` has `queue`.
pub(super) async fn chat(world: &World) {
    let actions = json!({
        "append": { "concurrency": "allow" },
        "plain": {},
        "respond": { "concurrency": "queue" },
        "edit": { "concurrency": "restart" },
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
}

/// Calls an action and leases its run.
async fn called(world: &World, action: &str, id: &str) -> tidegate_core::row::Run {
    let run = world.call_for_run("chat", action, id).await;
    let leased = world.lease_one().await;
    assert_eq!(leased.id, run);
    leased
}

/// spec sessions: a write is committed with the record of its step, once; the step gets the value
/// and the version.
pub async fn an_operation_is_a_step_and_happens_once(world: &World) {
    chat(world).await;
    let run = called(world, "plain", "s").await;
    let table = [
        (get(""), json!(null), 0),
        (set("title", json!("a")), json!("a"), 1),
        (append("messages", json!({ "text": "hi" })), json!(1), 2),
        (append("messages", json!("ho")), json!(2), 3),
        (increment("count", 2), json!(2), 4),
        (increment("count", -3), json!(-1), 5),
        (merge("user", json!({ "name": "x", "age": 7 })), json!({ "name": "x", "age": 7 }), 6),
        (merge("user", json!({ "age": null })), json!({ "name": "x" }), 7),
        (get("messages.1"), json!("ho"), 7),
        (get("no.such.place"), json!(null), 7),
        // An operation without a change makes no new version.
        (set("title", json!("a")), json!("a"), 7),
    ];
    for (n, (op, value, version)) in table.into_iter().enumerate() {
        let step = format!("step {n}");
        for _ in 0..2 {
            let answer = world.state_step(&run, &step, "s", op.clone()).await;
            let expected = Outcome { version, value: payload(&value) };
            assert_eq!(answer, Ok(expected), "{op:?}");
        }
        let kind = world.step_of(run.id, &step).await.map(|step| step.kind);
        assert_eq!(kind, Some(StepKind::State));
    }
    let expected = json!({
        "title": "a", "messages": [{ "text": "hi" }, "ho"], "count": -1, "user": { "name": "x" },
    });
    assert_eq!(world.document("s").await, expected);
    assert_eq!(world.staged().await, 0, "only runs under `restart` may stage operations");
}

/// The operations of one report are applied in order, each on the result of the one before. A
/// repeated report is ignored as a whole.
pub async fn the_operations_of_a_report_follow_each_other(world: &World) {
    chat(world).await;
    for action in ["plain", "edit"] {
        let run = called(world, action, action).await;
        let ops = [set("list", json!([])), append("list", json!(1)), increment("n", 1), get("")];
        let asked = |(n, op): (usize, _)| NewSessionOp {
            step: format!("step {n}"),
            session: session(action),
            op,
            expected_version: None,
        };
        let asked: Vec<_> = ops.into_iter().enumerate().map(asked).collect();
        let report = world.reporting(&run, asked, Then::Continue);
        for _ in 0..2 {
            // The report is repeated in one transaction with itself, as in a group commit.
            let answers = world.batch(vec![report.clone(), report.clone()]).await;
            assert_eq!(answers, vec![Ok(Answer::Recorded(Recorded::GoOn)); 2]);
        }
        let read = world.step_of(run.id, "step 3").await.unwrap().result.unwrap();
        let read = Outcome::from_payload(&read).unwrap().value;
        assert_eq!(read, payload(&json!({ "list": [1], "n": 1 })), "{action}");
        world.complete(&run).await;
        assert_eq!(world.document(action).await, json!({ "list": [1], "n": 1 }), "{action}");
    }
    assert_eq!(world.staged().await, 0);
}

/// spec B3, B4, B47: concurrent writes of several runs to one session lose no update, with or
/// without a policy.
pub async fn runs_that_race_lose_no_update(world: &World) {
    chat(world).await;
    let drive = async |id: u128| {
        let engine = world.engine(id);
        for n in 0..6 {
            engine.call_for_run("chat", "plain", "s").await;
            for run in engine.lease(1).await {
                let ops = [
                    increment("count", 1),
                    append("list", json!(n)),
                    merge("by", json!({ id.to_string(): n })),
                    set(&format!("runs.{}", run.id), json!(n)),
                ];
                for (step, op) in ops.into_iter().enumerate() {
                    let step = step.to_string();
                    let done = engine.operate(&run, &step, "s", op).await;
                    assert_eq!(done, Ok(Recorded::GoOn));
                    tokio::task::yield_now().await;
                }
                engine.complete(&run).await;
            }
        }
    };
    tokio::join!(drive(11), drive(12), drive(13));
    let document = world.document("s").await;
    assert_eq!(document["count"], json!(18));
    assert_eq!(document["list"].as_array().unwrap().len(), 18);
    assert_eq!(document["by"], json!({ "11": 5, "12": 5, "13": 5 }));
    assert_eq!(document["runs"].as_object().unwrap().len(), 18);
    let (version, _) = world.document_text("s").await.unwrap();
    assert_eq!(version, 4 * 18, "each write must make one version");
}

/// spec B34, B35, B36: appends are written at once while a respond runs. Responds run one after
/// another, and each sees all appends from before its start.
pub async fn every_respond_sees_what_was_appended_before_it(world: &World) {
    chat(world).await;
    let mut responds = Vec::new();
    for n in 0..3 {
        let run = world.call_for_run("chat", "append", "s").await;
        let queued = world.call_for_run("chat", "respond", "s").await;
        for leased in world.lease_all().await {
            if leased.id == run {
                let length = world.told(&leased, "say", "s", append("messages", json!(n))).await;
                assert_eq!(length, json!(n + 1), "it lands at once");
                world.complete(&leased).await;
            } else {
                responds.push(leased);
            }
        }
        assert_eq!(world.state(run).await, "completed");
        assert_eq!(world.state(queued).await, if n == 0 { "running" } else { "queued" });
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        let run = match responds.pop() {
            Some(run) => run,
            None => world.lease_one().await,
        };
        seen.push(world.told(&run, "read", "s", get("messages")).await.as_array().unwrap().len());
        world.told(&run, "reply", "s", append("messages", json!("reply"))).await;
        world.complete(&run).await;
    }
    assert_eq!(seen, [3, 4, 5], "the first respond started after all three appends");
    assert_eq!(world.document("s").await["messages"].as_array().unwrap().len(), 6);
}

/// An operation that does not fit the document fails its step and changes nothing.
pub async fn what_does_not_fit_fails_its_step_and_changes_nothing(world: &World) {
    chat(world).await;
    for action in ["plain", "edit"] {
        world.patch(action, set("", json!({ "n": 1, "s": "x", "list": [1] })), None).await.unwrap();
        let before = world.document_text(action).await;
        let run = called(world, action, action).await;
        let table = [
            (append("n", json!(1)), "SessionTypeMismatch", "cannot append at `n`"),
            (increment("s", 1), "SessionTypeMismatch", "the value is text"),
            (merge("list", json!({})), "SessionTypeMismatch", "the value is a list"),
            (set("n.deep", json!(1)), "SessionTypeMismatch", "the value at `n` is a number"),
            (set("list.7", json!(1)), "SessionTypeMismatch", "has 1 elements, but no element `7`"),
            (set("big", json!("x".repeat(MAX_SESSION_BYTES))), "SessionTooLarge", "1048576"),
        ];
        for (n, (op, code, message)) in table.into_iter().enumerate() {
            for _ in 0..2 {
                let step = n.to_string();
                let fault = world.state_step(&run, &step, action, op.clone()).await.unwrap_err();
                assert_eq!(fault.code, code, "{action}: {}", fault.message);
                assert!(fault.message.contains(message), "{action}: {}", fault.message);
            }
        }
        let fault = world.state_step(&run, "name", "", get("")).await.unwrap_err();
        assert_eq!(fault.code, "SessionBadName");
        world.complete(&run).await;
        assert_eq!(world.document_text(action).await, before, "{action}");
    }
    assert_eq!(world.staged().await, 0);
}

/// spec replace, steps: a worker that lost its lease, or whose run was cancelled, writes nothing.
pub async fn a_worker_without_its_lease_writes_nothing(world: &World) {
    chat(world).await;
    for (action, id) in [("plain", 10), ("edit", 20)] {
        let (dead, successor) = (world.engine(id), world.engine(id + 1));
        let fenced = async |worker: &World, run| {
            let late = worker.operate(run, "late", action, increment("n", 10)).await;
            assert!(matches!(late, Err(Refusal::Fenced { .. })), "{action}: {late:?}");
        };
        let run = called(&dead, action, action).await;
        dead.told(&run, "first", action, increment("n", 1)).await;
        world.lose(id).await;
        fenced(&dead, &run).await;
        let again = successor.lease_one().await;
        assert_eq!(again.id, run.id);
        fenced(&dead, &run).await;
        // Operations from before the loss are kept: applied ones in the document, staged ones
        // staged.
        let read = successor.told(&again, "second", action, increment("n", 1)).await;
        assert_eq!(read, json!(2), "{action}");
        successor.complete(&again).await;
        assert_eq!(world.document(action).await, json!({ "n": 2 }), "{action}");

        let cancelled = called(&successor, action, action).await;
        world.cancel(cancelled.id).await.unwrap();
        fenced(&successor, &cancelled).await;
        successor.stopped(&cancelled).await;
        assert_eq!(world.document(action).await, json!({ "n": 2 }), "{action}");
        assert_eq!(world.staged().await, 0, "{action}");
    }
    world.check_quiet().await;
}

/// A session can be changed from outside of runs, too. A caller that expects another version gets
/// an error with both versions.
pub async fn from_outside_a_version_can_be_insisted_on(world: &World) {
    let outcome = |version, value: Value| Ok(Outcome { version, value: payload(&value) });
    let changed =
        |expected, actual| Err(Refusal::Session(SessionError::Changed { expected, actual }));
    assert_eq!(world.patch("s", get(""), None).await, outcome(0, json!(null)));
    assert_eq!(world.document_text("s").await, None, "a read wrote the document");
    assert_eq!(world.patch("s", set("a", json!(1)), Some(0)).await, outcome(1, json!(1)));
    assert_eq!(world.patch("s", set("a", json!(2)), Some(0)).await, changed(0, 1));
    assert_eq!(world.patch("s", append("l", json!(1)), None).await, outcome(2, json!(1)));
    assert_eq!(world.patch("s", get("a"), Some(1)).await, changed(1, 2));
    assert_eq!(world.patch("s", increment("a", 1), Some(2)).await, outcome(3, json!(2)));
    let refused = world.patch("s", append("a", json!(1)), None).await.unwrap_err();
    assert_eq!(refused.code(), "session_type_mismatch");
    assert_eq!(world.document_text("s").await, Some((3, r#"{"a":2,"l":[1]}"#.to_owned())));
    // Of two callers that expect the same version, one succeeds.
    let race = async |by| world.patch("s", increment("a", by), Some(3)).await.is_ok();
    let (one, two) = tokio::join!(race(10), race(100));
    assert!(one != two, "{one} {two}");
}

/// A step may expect a version, too: it gets the conflict as an error and can handle it.
pub async fn a_step_can_insist_on_a_version(world: &World) {
    chat(world).await;
    for action in ["plain", "edit"] {
        let run = called(world, action, action).await;
        let asked = |step: &str, expected| NewSessionOp {
            step: step.to_owned(),
            session: session(action),
            op: increment("n", 1),
            expected_version: Some(expected),
        };
        let asked = vec![asked("wrong", 4), asked("right", 0)];
        world.run(world.reporting(&run, asked, Then::Continue)).await.unwrap();
        let wrong = world.step_of(run.id, "wrong").await.unwrap().result.unwrap_err();
        assert_eq!(wrong.code, "SessionChanged");
        assert!(world.step_of(run.id, "right").await.unwrap().result.is_ok());
        world.complete(&run).await;
        assert_eq!(world.document(action).await, json!({ "n": 1 }), "{action}");
    }
}

/// Every workspace, app, flow and session has its own document.
pub async fn sessions_are_apart(world: &World) {
    let other = world.in_workspace("other");
    let sessions =
        [("default", "chat", "s"), ("a", "chat", "s"), ("default", "b", "s"), ("x", "y", "z")];
    for (n, (app, flow, id)) in sessions.into_iter().enumerate() {
        for (ws, add) in [(&world.ws, 0), (&other.ws, 100)] {
            let session = SessionRef { app: app.into(), flow: flow.into(), id: id.into() };
            let (ws, op, expected_version) = (ws.clone(), set("", json!(n + add)), Some(0));
            world.run(Command::Session { ws, session, op, expected_version }).await.unwrap();
        }
    }
    let documents = world.dump().await.into_iter().filter_map(|row| match row {
        Row::Session(row) => Some(row.body.as_str().to_owned()),
        _ => None,
    });
    let mut documents: Vec<String> = documents.collect();
    documents.sort();
    assert_eq!(documents, ["0", "1", "100", "101", "102", "103", "2", "3"]);
}

/// Numbers, escapes, white space and duplicate names of a document stay byte for byte.
pub async fn the_rest_of_a_document_is_kept_byte_for_byte(world: &World) {
    let odd = r#" { "n" : 1.0 , "big":123456789012345678901234567890.10, "far":1e400, "a":1, "a":2,
        "half":"\ud800", "nul":"\u0000" , "neg":-0 } "#;
    let value = Payload::parse(odd.as_bytes(), usize::MAX).unwrap();
    let set_all = tidegate_core::row::SessionOp::Set { path: None, value };
    world.patch("s", set_all, None).await.unwrap();
    world.patch("s", append("list", json!(1)), None).await.unwrap();
    world.patch("s", increment("n", 1), None).await.unwrap();
    let (_, text) = world.document_text("s").await.unwrap();
    let expected = odd.trim().replace("1.0 ,", "2 ,").replace(" }", r#","list":[1]}"#);
    assert_eq!(text, expected);
    // A merge writes only the members that it changes, and removes the white space between members.
    world.patch("s", merge("", json!({ "n": null, "neg": 7 })), None).await.unwrap();
    let (_, text) = world.document_text("s").await.unwrap();
    for kept in ["123456789012345678901234567890.10", "1e400", r#""\ud800""#, r#""\u0000""#] {
        assert!(text.contains(kept), "{kept} in {text}");
    }
    assert!(text.contains(r#""a":1,"a":2,"#) && text.contains(r#""neg":7"#), "{text}");
    let key = RowKey::Session(world.ws.clone(), "default".into(), "chat".into(), "s".into());
    assert!(world.row(key).await.is_some());
}
