//! Keys of several paths, keys that an expression computes, and conditions.

use serde_json::{Value, json};
use tidegate_core::{flow::Verdict, row::Row};
use tidegate_store::why;

use crate::world::{World, request};

/// All keyed controls. The source of the key replaces `KEY`.
const CONTROLS: [(&str, &str); 10] = [
    ("concurrency", r#"{"concurrency": {"limit": 1, "key": KEY}}"#),
    ("concurrency", r#"{"concurrency": {"limit": 1, "span": "run", "key": KEY}}"#),
    ("singleton", r#"{"singleton": {"mode": "skip", "key": KEY}}"#),
    ("singleton", r#"{"singleton": {"mode": "cancel", "key": KEY}}"#),
    ("throttle", r#"{"throttle": {"limit": 1, "perMs": 60000, "key": KEY}}"#),
    ("rateLimit", r#"{"rateLimit": {"limit": 1, "perMs": 60000, "key": KEY}}"#),
    ("idempotency", r#"{"idempotency": {"periodMs": 60000, "key": KEY}}"#),
    ("debounce", r#"{"debounce": {"periodMs": 60000, "key": KEY}}"#),
    ("batch", r#"{"batch": {"maxSize": 9, "timeoutMs": 60000, "key": KEY}}"#),
    ("handoff", r#"{"handoff": {"onNewVersion": "drain", "type": "keyed", "keyField": KEY}}"#),
];

async fn define(world: &World, name: &str, control: &str, key: Value) {
    let control = control.replace("KEY", &key.to_string());
    let mut definition: Value = serde_json::from_str(&control).unwrap();
    definition["name"] = json!(name);
    world.define(definition).await;
}

/// Whether the first event affected the verdict on the second.
fn met(first: &Verdict, second: &Verdict) -> bool {
    match second {
        Verdict::Started { .. } | Verdict::WaitsForWorker { .. } => false,
        Verdict::Coalesced { run, .. } | Verdict::Buffered { run, .. } => first.run() == Some(*run),
        Verdict::Rejected { .. } => panic!("unexpected verdict: {second:?}"),
        _ => true,
    }
}

fn rejection(verdict: &Verdict) -> (&'static str, &str) {
    let Verdict::Rejected { control, reason } = verdict else { panic!("{verdict:?}") };
    (control, reason)
}

/// spec L13: a control with several paths counts each combination of their values apart. Values are
/// not joined to one text, and their types count.
pub async fn each_combination_of_values_is_counted_apart(world: &World) {
    let pairs = [
        json!({ "k": "a", "l": "b, c" }),
        json!({ "k": "a, b", "l": "c" }),
        json!({ "k": 1, "l": true }),
        json!({ "k": "1", "l": "true" }),
        json!({ "k": "b, c", "l": "a" }),
    ];
    for (n, (_, control)) in CONTROLS.iter().enumerate() {
        let name = format!("w{n}");
        define(world, &name, control, json!({ "paths": ["k", "l"] })).await;
        let mut firsts: Vec<Verdict> = Vec::new();
        for data in &pairs {
            let verdict = world.send(&name, data.clone()).await;
            let apart = firsts.iter().all(|first| !met(first, &verdict));
            assert!(apart, "{control}: {data} met another key: {verdict:?}");
            firsts.push(verdict);
        }
        let same = world.send_text(&name, r#"{"l": true, "x": 0, "k": 1.0}"#).await.verdict;
        assert!(met(&firsts[2], &same), "{control}: {same:?}");
    }
    world.check_holds().await;
}

/// spec L13: an event that lacks one of the values has no key, as one that lacks all of them.
pub async fn a_key_lacks_its_value_if_any_part_is_missing(world: &World) {
    let lacking = [
        json!({ "k": "a" }),
        json!({ "l": "b" }),
        json!({}),
        json!({ "k": "a", "l": null }),
        json!({ "k": ["a"], "l": "b" }),
    ];
    for (n, (name, control)) in CONTROLS.iter().enumerate() {
        let workflow = format!("w{n}");
        define(world, &workflow, control, json!({ "paths": ["k", "l"] })).await;
        if *name == "handoff" {
            let verdict = world.send(&workflow, lacking[0].clone()).await;
            let reason = "the required key `k, l` is missing from the data";
            assert_eq!(rejection(&verdict), ("handoff", reason));
            continue;
        }
        let first = world.send_text(&workflow, &lacking[0].to_string()).await;
        assert_eq!(first.key_missing, [*name]);
        for data in &lacking[1..] {
            let outcome = world.send_text(&workflow, &data.to_string()).await;
            assert!(met(&first.verdict, &outcome.verdict), "{control}: {data}");
            assert_eq!(outcome.key_missing, [*name]);
        }
        let with = world.send(&workflow, json!({ "k": "a", "l": "b" })).await;
        assert!(!met(&first.verdict, &with), "{control}: a key met the missing one");
    }
    world.check_holds().await;
}

/// spec L13: a key of several values is shown with the names of its paths, in answers and `why`;
/// also where a version is part of the gate's name.
pub async fn a_key_of_several_values_is_shown_with_its_names(world: &World) {
    let key = json!({ "paths": ["account.id", "region"] });
    world.define(json!({ "name": "w", "concurrency": { "limit": 1, "key": key } })).await;
    let data = json!({ "account": { "id": 7 }, "region": "eu" });
    world.send("w", data.clone()).await;
    let Verdict::Queued { run, by, .. } = world.send("w", data.clone()).await else { panic!() };
    assert_eq!(by.key, "account.id = 7, region = eu");
    let why = why(&*world.store, &world.ws, run).await.unwrap().expect("an explanation");
    let sentence = "it waits for concurrency of account.id = 7, region = eu (1 at once)";
    assert!(why.sentence.starts_with(sentence), "{}", why.sentence);
    let handoff = json!({ "type": "singleton", "onNewVersion": "coexist" });
    let singleton = json!({ "mode": "skip", "key": key });
    world.define(json!({ "name": "s", "singleton": singleton, "handoff": handoff })).await;
    world.send("s", data.clone()).await;
    let Verdict::Skipped { by, .. } = world.send("s", data).await else { panic!() };
    assert_eq!(by.key, "account.id = 7, region = eu");
}

/// spec L13: values that are longer together than a key may be are compared completely.
pub async fn long_values_of_several_paths_are_told_apart(world: &World) {
    define(world, "w", CONTROLS[2].1, json!({ "paths": ["k", "l"] })).await;
    let long = "x".repeat(700);
    let first = world.send("w", json!({ "k": long, "l": format!("{long}1") })).await;
    let other = world.send("w", json!({ "k": long, "l": format!("{long}2") })).await;
    assert!(!met(&first, &other), "{other:?}");
    let again = world.send("w", json!({ "k": long, "l": format!("{long}1") })).await;
    let Verdict::Skipped { by, .. } = again else { panic!("{again:?}") };
    assert!(by.key.starts_with("xxx") && by.key.len() < 100, "{}", by.key);
}

/// spec L15: every control with a key takes an expression; equal results are one key, also if they
/// were written differently.
pub async fn an_expression_computes_the_key(world: &World) {
    for (n, (name, control)) in CONTROLS.iter().enumerate() {
        let workflow = format!("w{n}");
        let key = json!({ "expr": "has(event.data.mail) ? lowercase(event.data.mail) : null" });
        define(world, &workflow, control, key).await;
        let first = world.send(&workflow, json!({ "mail": "Ada@x.org" })).await;
        let same = world.send(&workflow, json!({ "mail": "ada@X.org" })).await;
        assert!(met(&first, &same), "{control}: {same:?}");
        let other = world.send(&workflow, json!({ "mail": "bob@x.org" })).await;
        assert!(!met(&first, &other), "{control}: {other:?}");
        let missing = world.send_text(&workflow, "{}").await;
        if *name == "handoff" {
            assert_eq!(rejection(&missing.verdict).0, "handoff");
        } else {
            assert_eq!(missing.key_missing, [*name], "null is a missing key");
        }
    }
    world.check_holds().await;
}

/// spec L15: an expression may use the name, the id and the time of the event.
pub async fn an_expression_sees_the_event(world: &World) {
    let triggers = json!(["a", "b"]);
    let key = json!({ "expr": "event.name + string(event.ts > 0) + string(size(event.id) > 9)" });
    let singleton = json!({ "mode": "skip", "key": key });
    world.define(json!({ "name": "w", "triggers": triggers, "singleton": singleton })).await;
    let first = world.send("a", json!({})).await;
    assert!(!met(&first, &world.send("b", json!({})).await));
    let Verdict::Skipped { by, .. } = world.send("a", json!({})).await else { panic!() };
    assert_eq!(by.key, "atruetrue");
}

/// spec L15: an expression that cannot be evaluated, or whose result is no key, rejects the event
/// and names the expression and the value. The event is recorded.
pub async fn a_failed_expression_rejects_the_event_and_names_the_value(world: &World) {
    for (expr, data, reason) in [
        (
            "event.data.a + 1",
            json!({ "a": "x" }),
            "key `event.data.a + 1`: expression at offset 13: `+` does not take a text `\"x\"` and \
             a number `1`: convert one of them (expression_wrong_type)",
        ),
        (
            "event.data.a",
            json!({ "a": [1] }),
            "key `event.data.a`: expression at offset 0: a key must be a text, a number or a \
             boolean, got a list `[1]` (expression_wrong_type)",
        ),
        (
            "1 / event.data.a",
            json!({ "a": 0 }),
            "key `1 / event.data.a`: expression at offset 2: `1 / 0` divides by zero: test the divisor first \
             (expression_division_by_zero)",
        ),
    ] {
        let world = world.in_workspace(expr);
        define(&world, "w", CONTROLS[0].1, json!({ "expr": expr })).await;
        let posted = world.post("w", data).await;
        assert_eq!(rejection(&posted.runs[0].verdict), ("concurrency", reason));
        assert_eq!(world.receipts_of(posted.id).await[0]["outcome"], "rejected");
        assert_eq!(world.alive("w").await, 0);
    }
}

/// spec L15: expressions of an action read the request.
pub async fn the_expressions_of_an_action_read_the_request(world: &World) {
    let key = json!({ "expr": "request.session + '/' + lowercase(request.input.doc)" });
    let actions = json!({ "edit": { "concurrency": { "policy": "reject", "key": key } } });
    world.define_flow(json!({ "name": "docs", "actions": actions })).await;
    let edit = |session: &str, doc: &str| {
        request("docs", "edit", Some(session), None, &json!({ "doc": doc }))
    };
    let first = world.dispatch(edit("s", "A")).await.verdict;
    assert!(met(&first, &world.dispatch(edit("s", "a")).await.verdict));
    assert!(!met(&first, &world.dispatch(edit("t", "a")).await.verdict));
}

/// spec L15: an event starts a workflow only if the condition of one of its triggers holds. An
/// event for which none holds leaves no receipt.
pub async fn a_trigger_takes_only_events_for_which_its_condition_holds(world: &World) {
    let triggers = json!([
        { "event": "order/*", "if": "event.data.total > 100" },
        { "event": "order/rush", "if": "event.data.vip == true" },
    ]);
    world.define(json!({ "name": "review", "triggers": triggers })).await;
    world.define(json!({ "name": "all", "triggers": ["order/*"] })).await;
    for (name, data, starts) in [
        ("order/paid", json!({ "total": 101 }), true),
        ("order/paid", json!({ "total": 100 }), false),
        ("order/rush", json!({ "total": 5, "vip": true }), true),
        ("order/paid", json!({ "total": 5, "vip": true }), false),
        ("order/rush", json!({ "total": 101, "vip": true }), true),
    ] {
        let posted = world.post(name, data.clone()).await;
        let workflows: Vec<_> = posted.runs.iter().map(|it| it.workflow.as_str()).collect();
        let expected: &[&str] = if starts { &["all", "review"] } else { &["all"] };
        assert_eq!(workflows, expected, "{name} {data}");
        assert!(world.receipts_of(posted.id).await.is_empty());
    }
}

/// spec L15: an event for which no condition holds, and one cannot be evaluated, does not start the
/// workflow; a receipt names the condition and the value. Other workflows start.
pub async fn a_condition_that_cannot_be_evaluated_rejects_the_event(world: &World) {
    let condition = "event.data.total > 100";
    let triggers = json!([{ "event": "paid", "if": condition }, { "event": "p*", "if": "false" }]);
    world.define(json!({ "name": "review", "triggers": triggers })).await;
    world.define(json!({ "name": "all", "triggers": ["paid"] })).await;
    let posted = world.post("paid", json!({ "total": "much" })).await;
    assert!(matches!(posted.runs[0].verdict, Verdict::Started { .. }));
    let (control, reason) = rejection(&posted.runs[1].verdict);
    let expected = "if `event.data.total > 100`: expression at offset 17: `>` does not take a text \
                    `\"much\"` and a number `100`: convert one of them (expression_wrong_type)";
    assert_eq!((control, reason), ("triggers", expected));
    let receipts = world.receipts_of(posted.id).await;
    assert_eq!(
        (&receipts[0]["control"], &receipts[0]["error"]),
        (&json!("triggers"), &json!(expected))
    );
    let other = world.post("paid", json!({ "total": 101 })).await;
    assert_eq!(other.runs.len(), 2);
}

/// spec L15: an event for which the `if` of a batch is false gets a run at once, with a batch of
/// one. It leaves the open buffer as it is, and spends its own token and claim.
pub async fn an_event_that_a_batch_does_not_collect_runs_alone(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000, "if": "event.data.urgent != true" });
    let idempotency = json!({ "key": "id", "periodMs": 60_000 });
    world.define(json!({ "name": "w", "batch": batch, "idempotency": idempotency })).await;
    let first = world.send("w", json!({ "id": 1 })).await;
    let alone = world.send("w", json!({ "id": 2, "urgent": true })).await;
    let Verdict::Started { run } = alone else { panic!("{alone:?}") };
    assert_ne!(first.run(), Some(run));
    let data = json!([{ "id": 2, "urgent": true }]);
    assert_eq!(world.inputs_of(run).await, data.as_array().cloned(), "a batch of one");
    let again = world.send("w", json!({ "id": 2, "urgent": true })).await;
    assert!(matches!(again, Verdict::Deduped { .. }), "{again:?}");
    let second = world.send("w", json!({ "id": 3 })).await;
    assert!(matches!(second, Verdict::Buffered { pending: 2, .. }), "{second:?}");
    let bad = world.send("w", json!({ "id": 4, "urgent": 1 })).await;
    assert_eq!(rejection(&bad).0, "batch");
    world.tick(1000).await;
    let batch = world.inputs_of(first.run().unwrap()).await.expect("a batch");
    assert_eq!(batch.len(), 2);
    let items = world.dump().await.into_iter().filter(|row| matches!(row, Row::Item(_)));
    assert_eq!(items.count(), 3);
    world.check_holds().await;
}

/// spec L15, F4: the event of a fired window that a batch does not collect gets the window's run.
pub async fn a_window_whose_event_a_batch_does_not_collect_runs_alone(world: &World) {
    let batch = json!({ "maxSize": 3, "timeoutMs": 1000, "if": "event.data.urgent != true" });
    let debounce = json!({ "periodMs": 10 });
    world.define(json!({ "name": "w", "batch": batch, "debounce": debounce })).await;
    let window = world.send("w", json!({ "urgent": true })).await.run().expect("a run");
    world.tick(10).await;
    assert_eq!(world.inputs_of(window).await, Some(vec![json!({ "urgent": true })]));
    assert_eq!(world.lease_one().await.id, window);
    let bad = world.send("w", json!({ "urgent": 1 })).await;
    assert_eq!(rejection(&bad).0, "batch", "refused at arrival, not when the window fires");
    world.check_holds().await;
}
