//! Arbitration: keys of policies, give-up times of queued requests, and overlaps of schedules.

use serde_json::{Value, json};
use tidegate_core::{
    command::Command,
    flow::Verdict,
    id::RunId,
    key::{Key, Scalar},
    request::Request,
    row::{Ending, Row, RowKey, Run},
    run::record::{NewWait, NewWaitOn, Recorded, Then},
};

use crate::world::{World, event, payload, request, skipped};

/// Defines a flow with one action, whose policy is `reject` with this key.
async fn rejecting(world: &World, flow: &str, key: &Value) {
    let policy = json!({ "policy": "reject", "key": key });
    let actions = json!({ "act": { "concurrency": policy } });
    world.define_flow(json!({ "name": flow, "actions": actions })).await;
}

/// Builds a request with session and user.
fn by(flow: &str, session: &str, user: &str) -> Request {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Request {
        session: given(session),
        user: given(user),
        ..request(flow, "act", None, None, &json!({}))
    }
}

/// spec B22, B23, B25, B26, B28: requests are arbitrated by the key of the policy, and without the
/// key not at all.
pub async fn requests_meet_by_the_key_of_their_policy(world: &World) {
    // The key, then a list of requests: session, user, and whether the request is admitted.
    let cases = [
        (
            json!("session"),
            [
                ("s", "u", true),
                ("s", "v", false),
                ("t", "u", true),
                ("", "u", true),
                ("", "u", true),
            ],
        ),
        (
            json!("user"),
            [
                ("s", "u", true),
                ("t", "u", false),
                ("s", "v", true),
                ("s", "", true),
                ("s", "", true),
            ],
        ),
        (
            json!("none"),
            [("s", "u", true), ("s", "u", true), ("s", "u", true), ("", "", true), ("", "", true)],
        ),
    ];
    for (key, requests) in cases {
        let flow = format!("by_{}", key.as_str().unwrap());
        rejecting(world, &flow, &key).await;
        for (session, user, admitted) in requests {
            let verdict = world.dispatch(by(&flow, session, user)).await.verdict;
            assert_eq!(verdict.run().is_some(), admitted, "{key}: {session}, {user}");
        }
    }
    let default = json!({ "act": { "concurrency": "reject" } });
    world.define_flow(json!({ "name": "default", "actions": default })).await;
    assert_eq!(world.dispatch(by("default", "s", "u")).await.verdict.outcome(), "started");
    assert_eq!(world.dispatch(by("default", "s", "v")).await.verdict.outcome(), "skipped");
    world.check_holds().await;
}

/// spec B22, keys: a key may be any scalar value of the request; objects, arrays and null are not
/// keys.
pub async fn a_key_may_be_any_value_of_the_request(world: &World) {
    rejecting(world, "flow", &json!("input.order.id")).await;
    let call = async |id: Value| {
        let input = json!({ "order": { "id": id } });
        world.call("flow", "act", "s", input).await.outcome()
    };
    for id in [json!(1), json!("1"), json!(true)] {
        assert_eq!(call(id.clone()).await, "started");
        assert_eq!(call(id).await, "skipped");
    }
    for none in [json!(null), json!({}), json!([1])] {
        assert_eq!(call(none.clone()).await, "started");
        assert_eq!(call(none).await, "started", "a request without a key must not be arbitrated");
    }
    rejecting(world, "hooks", &json!("metadata.webhook.id")).await;
    let delivery = payload(&json!({ "webhook": { "id": "d1" } }));
    let hook = || Request { metadata: delivery.clone(), ..by("hooks", "", "") };
    assert_eq!(world.dispatch(hook()).await.verdict.outcome(), "started");
    assert_eq!(world.dispatch(hook()).await.verdict.outcome(), "skipped");
}

/// spec B24, B27: equal sessions and users of two tenants, or of two flows, are never arbitrated
/// together.
pub async fn tenants_and_flows_never_meet(world: &World) {
    let other = world.in_workspace("b");
    for tenant in [world, &other] {
        for key in ["session", "user"] {
            rejecting(tenant, key, &json!(key)).await;
            assert_eq!(tenant.dispatch(by(key, "x", "x")).await.verdict.outcome(), "started");
            skipped(&tenant.dispatch(by(key, "x", "x")).await.verdict);
        }
    }
}

/// spec policies: keys of different kinds (session, user, path, function) in one flow are separate,
/// even if their values are equal.
pub async fn kinds_of_keys_are_apart(world: &World) {
    let policy = |key: Value| json!({ "concurrency": { "policy": "reject", "key": key } });
    let actions = json!({
        "session": policy(json!("session")),
        "user": policy(json!("user")),
        "path": policy(json!("input.x")),
        "function": policy(json!({ "function": "f" })),
        "other_function": policy(json!({ "function": "g" })),
    });
    world.define_flow(json!({ "name": "flow", "actions": actions })).await;
    let names = ["session", "user", "path", "function", "other_function"];
    for expected in ["started", "skipped"] {
        for name in names {
            let input = json!({ "x": "x" });
            let request = Request {
                function_key: Some(Key::Value(Scalar::text("x".to_owned()))),
                ..request("flow", name, Some("x"), Some("x"), &input)
            };
            assert_eq!(world.dispatch(request).await.verdict.outcome(), expected, "{name}");
        }
    }
    world.check_holds().await;
}

/// spec B29, B30, B48: the value that a key function returns is the key. Without a value, the
/// request runs; if the function was not called, the request is refused.
pub async fn a_key_function_gives_the_key(world: &World) {
    rejecting(world, "flow", &json!({ "function": "tenant_of" })).await;
    let call = async |key: Option<&str>| {
        let key = key.map_or(Key::Missing, |key| Key::Value(Scalar::text(key.to_owned())));
        let request = Request { function_key: Some(key), ..by("flow", "s", "u") };
        world.dispatch(request).await.verdict.outcome()
    };
    assert_eq!(call(Some("a")).await, "started");
    assert_eq!(call(Some("a")).await, "skipped");
    assert_eq!(call(Some("b")).await, "started");
    assert_eq!(call(None).await, "started");
    assert_eq!(call(None).await, "started");
    let unasked = world.dispatch(by("flow", "s", "u")).await.verdict;
    assert!(matches!(unasked, Verdict::Rejected { control: "policy", .. }), "{unasked:?}");
}

/// spec B43, B29: a debounce window whose key comes from a key function leads to the gate of the
/// same key.
pub async fn a_window_keeps_what_the_key_function_said(world: &World) {
    let key = json!({ "function": "tenant_of" });
    let actions = json!({
        "act": { "concurrency": { "policy": "reject", "key": key } },
        "index": { "concurrency": { "policy": "debounce", "periodMs": 1000, "key": key } },
    });
    world.define_flow(json!({ "name": "flow", "actions": actions })).await;
    let function_key = Some(Key::Value(Scalar::text("a".to_owned())));
    let act = Request { function_key, ..by("flow", "s", "u") };
    let index = Request { action: "index".into(), ..act.clone() };
    let run = world.dispatch(index).await.verdict.run().unwrap();
    world.tick(1000).await;
    assert_eq!(skipped(&world.dispatch(act).await.verdict).0, run);
}

/// spec N39: no field of a request changes its policy or its key.
pub async fn a_request_cannot_choose_its_policy(world: &World) {
    rejecting(world, "flow", &json!("session")).await;
    assert_eq!(world.dispatch(by("flow", "s", "u")).await.verdict.outcome(), "started");
    let wish = json!({ "concurrency": "allow", "policy": "allow", "key": "none", "session": "t" });
    let request = Request {
        input: payload(&wish),
        metadata: payload(&wish),
        function_key: Some(Key::Value(Scalar::text("another".to_owned()))),
        ..by("flow", "s", "v")
    };
    assert_eq!(world.dispatch(request).await.verdict.outcome(), "skipped");
}

/// spec N31: a request that was queued for `maxWaitMs` leaves the queue; those behind it move up.
pub async fn a_request_gives_up_its_place_in_time(world: &World) {
    let actions = json!({
        "respond": { "concurrency": "queue" },
        "hasty": { "concurrency": { "policy": "queue", "maxWaitMs": 1000 } },
    });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    world.call_for_run("chat", "respond", "s").await;
    let holder = world.lease_one().await;
    let hasty = world.call_for_run("chat", "hasty", "s").await;
    let patient = world.call_for_run("chat", "respond", "s").await;
    world.tick(500).await;
    let later = world.call_for_run("chat", "hasty", "s").await;
    world.tick(499).await;
    assert_eq!(world.state(hasty).await, "queued");
    world.tick(1).await;
    let ending = world.ended(hasty).await.expect("its time is up").ending;
    let Ending::Cancelled { reason, by: None } = ending else { panic!("{ending:?}") };
    assert!(reason.contains("maxWaitMs"), "{reason}");
    world.complete(&holder).await;
    let running = world.lease_one().await;
    assert_eq!(running.id, patient, "the request behind the cancelled one did not move up");
    world.complete(&running).await;
    let running = world.lease_one().await;
    assert_eq!(running.id, later, "in time");
    world.tick(10_000).await;
    world.complete(&running).await;
    assert_eq!(
        world.state(later).await,
        "completed",
        "a request that was admitted was cancelled by `maxWaitMs`"
    );
    world.check_holds().await;
}

/// spec N31: the time counts from the arrival of the request, also if it passes another gate first.
pub async fn a_request_gives_up_its_place_at_an_earlier_gate_too(world: &World) {
    let handoff = json!({ "type": "singleton", "onNewVersion": "drain" });
    let hasty = json!([{ "policy": "queue", "maxWaitMs": 1000 }]);
    let actions = json!({ "hasty": { "concurrency": hasty, "handoff": handoff } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    world.call_for_run("chat", "hasty", "s").await;
    let holder = world.lease_one().await;
    let waits = world.call_for_run("chat", "hasty", "t").await;
    world.tick(1000).await;
    assert_eq!(world.state(waits).await, "cancelled");
    assert_eq!(world.state(holder.id).await, "running");
    world.complete(&holder).await;
    assert!(world.drain().await.is_empty());
    world.check_holds().await;
}

/// spec policies: if the policy `queue` has no maximum wait, that of the caller applies; otherwise
/// that of the policy.
pub async fn a_caller_gives_up_where_the_policy_does_not_say(world: &World) {
    let short = json!({ "policy": "queue", "maxWaitMs": 100 });
    let actions = json!({ "act": { "concurrency": "queue" }, "short": { "concurrency": short } });
    world.define_flow(json!({ "name": "flow", "actions": actions })).await;
    let patient = |action: &str, ms| Request {
        action: action.to_owned(),
        max_wait_ms: ms,
        ..by("flow", "s", "")
    };
    let mut runs = Vec::new();
    for (action, ms) in
        [("act", Some(300)), ("act", Some(300)), ("act", None), ("short", Some(900))]
    {
        let outcome = world.dispatch(patient(action, ms)).await;
        runs.push(outcome.verdict.run().expect("each makes a run"));
    }
    for (ms, states) in [
        (99, ["queued", "queued", "queued", "queued"]),
        (1, ["queued", "queued", "queued", "cancelled"]),
        (199, ["queued", "queued", "queued", "cancelled"]),
        (1, ["queued", "cancelled", "queued", "cancelled"]),
        (600_000, ["queued", "cancelled", "queued", "cancelled"]),
    ] {
        world.tick(ms).await;
        for (run, state) in runs.iter().zip(states) {
            assert_eq!(world.state(*run).await, state);
        }
    }
    assert_eq!(
        world.drain().await,
        [runs[0], runs[2]],
        "a request without a maximum wait left the queue"
    );
}

/// spec policies: an input that does not match the action's schema is refused and leaves no row.
pub async fn an_input_that_does_not_fit_is_refused(world: &World) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let actions = json!({ "act": { "concurrency": "reject", "schema": schema } });
    world.define_flow(json!({ "name": "flow", "actions": actions })).await;
    let ask = |input: Value| Request { input: payload(&input), ..by("flow", "s", "") };
    let (ws, request) = (world.ws.clone(), ask(json!({ "n": "1" })));
    let refused = world.run(Command::Dispatch { ws, request }).await.unwrap_err();
    assert_eq!(refused.code(), "bad_input");
    let said =
        r#"the input of `flow/act` cannot be used: `input.n` must have type "integer", got "1""#;
    assert_eq!(refused.to_string(), said);
    assert_eq!(world.dispatch(ask(json!({ "n": 1 }))).await.verdict.outcome(), "started");
}

/// spec N32: a queued request has a run at once; if the run is cancelled in the queue, it never
/// starts.
pub async fn a_queued_request_can_be_cancelled(world: &World) {
    let actions = json!({ "respond": { "concurrency": "queue" } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(world.call_for_run("chat", "respond", "s").await);
    }
    assert_eq!(world.state(runs[1]).await, "queued");
    world.cancel(runs[1]).await.unwrap();
    assert_eq!(world.state(runs[1]).await, "cancelled");
    assert_eq!(world.drain().await, [runs[0], runs[2], runs[3]]);
    world.check_holds().await;
}

/// Lets a run call another workflow and wait for it; returns the error if the call was refused.
async fn invoke(world: &World, run: &Run, workflow: &str, data: &Value) -> Option<String> {
    let (app, workflow, data) = ("default".to_owned(), workflow.to_owned(), payload(data));
    let on = NewWaitOn::Invoke { app, workflow, data };
    let wait = NewWait { step: "call".to_owned(), on, until: None };
    let let_go = world.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
    assert_eq!(let_go, Ok(Recorded::LetGo));
    match world.row(RowKey::Step(run.id.seq, "call".to_owned())).await {
        Some(Row::Step(step)) => step.result.err().map(|fault| fault.code),
        _ => None,
    }
}

/// spec G8, N40: a request is refused at once if an ancestor of its run holds its key, under every
/// policy.
pub async fn a_key_held_by_an_ancestor_is_refused(world: &World) {
    world.define(json!({ "name": "between" })).await;
    for policy in ["queue", "reject", "restart"] {
        let actions =
            json!({ "outer": { "concurrency": "queue" }, "inner": { "concurrency": policy } });
        world.define_flow(json!({ "name": policy, "actions": actions })).await;
        let outer = world.call_for_run(policy, "outer", "s").await;
        let run = world.lease_one().await;
        let inner = format!("{policy}/inner");
        assert_eq!(invoke(world, &run, "between", &json!({})).await, None);
        let between = world.lease_one().await;
        let fault = invoke(world, &between, &inner, &json!({ "session": "s" })).await;
        assert_eq!(fault.as_deref(), Some("HeldByAncestor"), "{policy}");
        assert_eq!(world.state(outer).await, "waiting", "{policy}: the ancestor was replaced");
        let between = world.lease_one().await;
        world.complete(&between).await;
        world.complete(&world.lease_one().await).await;
        world.check_holds().await;
    }
}

/// spec B45, B46: an occurrence is skipped while the last run of its schedule is live, unless it
/// may overlap.
pub async fn a_schedule_skips_or_allows_overlap(world: &World) {
    let hourly = json!({ "cron": "@hourly", "onOverlap": "allow" });
    let triggers = json!(["report", { "cron": "@daily" }, { "cron": "@weekly" }, hourly]);
    world.define(json!({ "name": "report", "triggers": triggers })).await;
    let first = world.occur("report", "@daily").await;
    let run: RunId = first.run().expect("the first runs");
    let refused = world.occur("report", "@daily").await;
    assert_eq!(skipped(&refused), (run, "onOverlap"));
    assert_eq!(
        world.occur("report", "@weekly").await.outcome(),
        "started",
        "the overlap rule applied across two schedules"
    );
    assert_eq!(
        world.occur("report", "@hourly").await.outcome(),
        "started",
        "an occurrence that may overlap was skipped"
    );
    assert_eq!(world.occur("report", "@hourly").await.outcome(), "started");
    let by_event = world.send("report", json!({})).await;
    assert!(matches!(by_event, Verdict::Started { .. }), "the overlap rule applied to an event");
    assert_eq!(world.lease_all().await.len(), 5, "all at once");
    assert_eq!(world.occur("report", "@daily").await.outcome(), "skipped");
    world.lose(1).await;
    let world = world.engine(2);
    assert_eq!(world.drain().await.len(), 5);
    assert_eq!(world.occur("report", "@daily").await.outcome(), "started");
    world.check_holds().await;
}

/// spec B45, B24: schedules of the same name in another tenant or workflow are independent.
pub async fn schedules_of_others_are_apart(world: &World) {
    let other = world.in_workspace("b");
    for tenant in [world, &other] {
        for name in ["report", "clean"] {
            tenant.define(json!({ "name": name, "triggers": [{ "cron": "@daily" }] })).await;
            assert_eq!(tenant.occur(name, "@daily").await.outcome(), "started");
            assert_eq!(tenant.occur(name, "@daily").await.outcome(), "skipped");
        }
    }
}

/// spec triggers: an action is not triggered by an event of its name.
pub async fn an_action_is_not_triggered_by_events(world: &World) {
    rejecting(world, "flow", &json!("session")).await;
    let posted = world.post_event(event("flow/act", &json!({ "session": "s" }))).await;
    assert!(posted.runs.is_empty());
}
