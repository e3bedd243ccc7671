//! Request keys: by session, user, input value or key function.

use serde_json::{Value, json};
use tidegate::{Action, Ctx, Flow, Policy, Request, Workflow, new_request, testing::TestHarness};
use tidegate_core::json::Payload;

use crate::{
    requests::{act, call, dispatch},
    words::{Journal, n, secs, start},
};

/// spec B22–B28, B31, B32, B33: requests with equal keys share a gate. Requests without a key share
/// none.
pub(crate) async fn requests_meet_by_the_key_of_their_policy(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let rejecting =
        |name: &str, key: &str| act(&journal, name, 100).policy(Policy::reject().key(key));
    let flow = Flow::new("chat")
        .action(act(&journal, "default", 100).policy(Policy::reject()))
        .action(rejecting("user", "user"))
        .action(rejecting("value", "input.order.id"))
        .action(rejecting("hook", "metadata.webhook.id"));
    let engine = harness.engine().workspaces(["one", "two"]).flow(flow).start().await.unwrap();
    let metadata = r#"{"webhook":{"id":"d1"}}"#.as_bytes();
    let request = |action: &str, session: &str, user: &str, id: Value| {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Request {
            session: given(session),
            user: given(user),
            metadata: Payload::parse(metadata, 1000).unwrap(),
            ..new_request("chat", action, json!({ "order": { "id": id } })).unwrap()
        }
    };
    let table = [
        ("default", "s", "u", json!(1), "started"),
        ("default", "s", "v", json!(2), "skipped"),
        ("default", "t", "u", json!(1), "started"),
        ("default", "", "u", json!(1), "started"),
        ("default", "", "u", json!(1), "started"),
        ("user", "s", "u", json!(1), "started"),
        ("user", "t", "u", json!(1), "skipped"),
        ("user", "s", "", json!(1), "started"),
        ("user", "s", "", json!(1), "started"),
        ("value", "s", "u", json!(1), "started"),
        ("value", "t", "v", json!(1.0), "skipped"),
        ("value", "s", "u", json!("1"), "started"),
        ("value", "s", "u", json!(null), "started"),
        ("value", "s", "u", json!([1]), "started"),
        ("hook", "", "", json!(1), "started"),
        ("hook", "s", "u", json!(2), "skipped"),
    ];
    for tenant in ["one", "two"] {
        let engine = engine.in_workspace(tenant);
        for (action, session, user, id, expected) in &table {
            let verdict = dispatch(&engine, request(action, session, user, id.clone())).await;
            assert_eq!(
                verdict.outcome(),
                *expected,
                "wrong verdict for {tenant}: {action} {session} {user} {id}"
            );
        }
    }
}

/// spec B29, B30, N39: a function of the program computes the key. If it returns no key, the
/// request takes no gate. A key that the caller puts into the request is ignored.
pub(crate) async fn a_key_function_gives_the_key(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let tenant = |request: &Request| {
        let input: Value = serde_json::from_str(request.input.as_str()).ok()?;
        Some(input["mail"].as_str()?.split('@').nth(1)?.to_owned())
    };
    let flow = Flow::new("chat")
        .action(act(&journal, "act", 10).policy_by(Policy::reject(), tenant))
        .action(act(&journal, "also", 10).policy_by(Policy::reject(), tenant));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let send = async |action: &str, mail: &str| {
        let mut request = call(action, "s", json!({ "mail": mail }));
        request.function_key = engine_key();
        dispatch(&engine, request).await.outcome()
    };
    assert_eq!([send("act", "a@x").await, send("act", "b@x").await], ["started", "skipped"]);
    assert_eq!(send("also", "a@x").await, "started", "keys of two functions must not share a gate");
    assert_eq!(send("act", "a@y").await, "started");
    assert_eq!([send("act", "nobody").await, send("act", "nobody").await], ["started"; 2]);
}

/// A key that a caller puts into the request.
#[expect(clippy::unnecessary_wraps, reason = "the field of the request is an option")]
fn engine_key() -> Option<tidegate_core::key::Key> {
    let wish = tidegate_core::key::Scalar::text("a wish".to_owned());
    Some(tidegate_core::key::Key::Value(wish))
}

/// spec B6, B29: if the flow's policy has a key function, all actions that use this policy share
/// its keys.
pub(crate) async fn a_flows_key_function_is_shared_by_its_actions(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let flow = Flow::new("chat")
        .policy_by(Policy::reject(), |request| request.user.clone())
        .action(act(&journal, "one", 10))
        .action(act(&journal, "two", 10))
        .action(act(&journal, "own", 10).policy_by(Policy::reject(), |_: &Request| Some("all")));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let send = async |action: &str, user: &str| {
        let request = Request { user: Some(user.to_owned()), ..call(action, "s", json!({})) };
        dispatch(&engine, request).await.outcome()
    };
    assert_eq!([send("one", "u").await, send("two", "u").await], ["started", "skipped"]);
    assert_eq!([send("two", "v").await, send("own", "u").await], ["started"; 2]);
    assert_eq!(send("own", "v").await, "skipped");
}

/// spec B48, N35: an engine without the key function refuses the request, because the policy must
/// not be skipped. A call from a run is refused, too, because the function is not called for it.
pub(crate) async fn without_its_key_function_a_request_is_refused(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let act = act(&journal, "act", 10).policy_by(Policy::reject(), |_: &Request| Some("all"));
    let parent = Workflow::new("parent", |ctx: Ctx, _: Value| async move {
        ctx.invoke::<_, Value>("call", "chat/act", json!({ "session": "s" })).await
    });
    let flow = Flow::new("chat").action(act);
    let server = harness.engine().flow(flow).workflow(parent).start().await.unwrap();
    let client = harness.engine().start().await.unwrap();
    assert_eq!(dispatch(&server, call("act", "s", json!({}))).await.outcome(), "started");
    let answer = dispatch(&client, call("act", "s", json!({}))).await.to_value();
    assert_eq!((&answer["outcome"], &answer["control"]), (&json!("rejected"), &json!("policy")));
    let parent = start(&server, "parent", json!({})).await;
    harness.settle().await;
    let fault = server.output::<Value>(parent).await.unwrap().unwrap_err();
    assert!(fault.message().contains("key function"), "{fault:?}");
}

/// spec A5, B29: a replay of a run calls the key function, too, with the input of the replay.
pub(crate) async fn a_replay_meets_the_policy_by_the_same_key(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let key = |request: &Request| {
        let input: Value = serde_json::from_str(request.input.as_str()).ok()?;
        let session = request.session.as_deref()?;
        Some(format!("{session}{}", input["n"]))
    };
    let flow = Flow::new("chat").action(act(&journal, "act", 10).policy_by(Policy::queue(), key));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let first = dispatch(&engine, call("act", "s", json!({ "n": 1 }))).await.run().unwrap();
    harness.advance(secs(10)).await;
    let holder = dispatch(&engine, call("act", "s", json!({ "n": 1 }))).await;
    assert_eq!(holder.outcome(), "started");
    assert_eq!(engine.replay(first).await.unwrap().verdict.outcome(), "queued");
    let other = engine.replay_with(first, json!({ "n": 2 })).await.unwrap();
    assert_eq!(other.verdict.outcome(), "started");
    harness.advance(secs(20)).await;
    assert_eq!(journal.take_moments(), [0, 10_000, 10_000, 20_000]);
}

/// spec B3, B34, B35, B36, B47: `append` requests are accepted at once while a `respond` runs.
/// `respond` requests run in order, and each sees all messages appended before its start.
pub(crate) async fn appends_land_while_a_respond_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let append = Action::new("append", |ctx: Ctx, input: Value| async move {
        ctx.session()?.append("message", "messages", &input["n"]).await
    });
    let noted = journal.clone();
    let respond = Action::new("respond", move |ctx: Ctx, input: Value| {
        let journal = noted.clone();
        async move {
            let session = ctx.session()?;
            let seen: Option<Vec<u32>> = session.get("read", "messages").await?;
            let think = ctx.step("think", || async {
                journal.work("respond", n(&input), secs(10)).await;
                Ok(())
            });
            think.await?;
            session.increment::<u32>("count", "responds", 1).await?;
            Ok(seen.unwrap_or_default().len())
        }
    });
    let flow = Flow::new("chat").action(append.policy(Policy::allow()));
    let flow = flow.action(respond.policy(Policy::queue()));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let mut responds = Vec::new();
    for n in 0..3 {
        let appends = (0..5).map(|m| call("append", "s", json!({ "n": 5 * n + m })));
        let appends: Vec<_> = appends.map(|request| dispatch(&engine, request)).collect();
        let mut landed = Vec::new();
        for append in appends {
            landed.extend(append.await.run());
        }
        harness.settle().await;
        for append in landed {
            harness.completed(&engine, append).await;
        }
        let respond = dispatch(&engine, call("respond", "s", json!({ "n": n }))).await;
        responds.extend(respond.run());
        harness.settle().await;
    }
    harness.advance(secs(30)).await;
    assert_eq!(
        (journal.take(), journal.most("respond")),
        (vec!["0".into(), "1".into(), "2".into()], 1)
    );
    let mut seen = Vec::new();
    for respond in responds {
        seen.push(harness.completed(&engine, respond).await);
    }
    assert_eq!(seen, [5, 15, 15], "each respond must see all messages appended before its start");
}
