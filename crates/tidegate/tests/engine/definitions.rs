//! Definitions as data and as builder calls. All errors of a definition are reported at once.

use serde_json::{Value, json};
use tidegate::{
    Action, Batch, Concurrency, Ctx, Debounce, Error, Flow, Handoff, Idempotency, OnNewVersion,
    Policy, Priority, Rate, Request, Retry, ServedWorkflow, Singleton, Workflow,
    testing::TestHarness,
};
use tidegate_core::{definition::Problem, row::Row};

use crate::words::{ms, secs};

async fn nothing(_: Ctx, _: Value) -> tidegate::Result<()> {
    Ok(())
}

fn data(definition: Value) -> Workflow<Value, ()> {
    Workflow::from_definition(definition, nothing)
}

async fn problems(builder: tidegate::EngineBuilder) -> Vec<Problem> {
    match builder.start().await {
        Err(Error::Definition(problems)) => problems,
        other => panic!("expected definition errors, got: {other:?}"),
    }
}

/// spec A4, B20, B21, B59, N25: all errors of all definitions are reported at once, each with the
/// subject, the field and the fix, and nothing is registered.
pub(crate) async fn everything_that_is_wrong_is_said_at_once(harness: &TestHarness) {
    let late = Action::new("say", nothing).debounce(Debounce::quiet(secs(1)));
    let late = late.policy_by(Policy::queue(), |request: &Request| request.user.clone());
    let builder = harness
        .engine()
        .workflow(data(json!({ "name": "fine" })))
        .workflow(data(json!({ "name": "a", "throttle": { "limit": 0, "perMs": -1 } })))
        .workflow(data(json!({ "name": "b", "debounse": { "periodMs": 1 } })))
        .workflow(data(json!({ "name": "c", "singleton": { "mode": "skipp" } })))
        .workflow(data(json!({ "name": "d", "debounce": { "periodMs": 9, "maxWaitMs": 1 } })))
        .workflow(data(json!("no object")))
        .workflow(Workflow::from_toml("name = \"e\"\nbatch = {", nothing))
        .workflow(Workflow::new("f", nothing).handoff(Handoff::keyed("", OnNewVersion::Drain)))
        .workflow(Workflow::new("g", nothing).version(1))
        .workflow(Workflow::new("g", nothing).version(1))
        .workflow(Workflow::new("h", nothing).cron("61 * * * *", "Europe/Paris"))
        .flow(Flow::from_definition(json!({
            "name": "chat", "concurrency": "quque", "actions": { "say": {}, "ask": { "x": 1 } },
        })))
        .flow(Flow::new("talk").action(late));
    let found = problems(builder).await;
    let answer: Vec<String> = found.iter().map(ToString::to_string).collect();
    let expected = [
        "workflow `a`: throttle.limit",
        "workflow `a`: throttle.perMs",
        "workflow `b`: debounse",
        "workflow `c`: singleton.mode",
        "workflow `d`: debounce.maxWaitMs",
        "a workflow: definition must be an object",
        "a workflow: definition cannot be read",
        "workflow `f`: handoff.keyField",
        "workflow `g`: version is served twice",
        "workflow `h`: triggers[0]",
        "flow `chat`: actions.ask has no code",
        "flow `chat`: actions.say has no code",
        "flow `chat`: concurrency",
        "action `chat/ask`: x",
        "action `talk/say`: debounce is not allowed with a key function",
    ];
    for expected in expected {
        assert!(answer.iter().any(|it| it.starts_with(expected)), "{expected}\n{answer:#?}");
    }
    assert_eq!(answer.len(), expected.len(), "{answer:#?}");
    let near = |name: &str| answer.iter().any(|it| it.contains(&format!("`{name}`?")));
    assert!(near("debounce") && near("skip") && near("queue"), "{answer:#?}");
    assert!(
        harness.store().dump().await.unwrap().is_empty(),
        "rows were written although the definitions are invalid"
    );
}

/// spec versions: a version number with a changed definition is refused before anything is
/// registered, except in development.
pub(crate) async fn a_changed_definition_needs_a_new_number(harness: &TestHarness) {
    let order = |limit| {
        let order = Workflow::new("order", nothing).version(1);
        order.concurrency(Concurrency::limit(limit))
    };
    let _first = harness.engine().workflow(order(1)).start().await.unwrap();
    let same = harness.engine().workflow(order(1)).start().await;
    assert!(same.is_ok());
    let beside = Workflow::new("beside", nothing);
    let found = problems(harness.engine().workflow(beside).workflow(order(2))).await;
    assert!(found[0].message.contains("higher number"), "{found:?}");
    let rows = harness.store().dump().await.unwrap();
    let registered = rows.iter().filter(|row| matches!(row, Row::Def(_))).count();
    assert_eq!(registered, 1, "other definitions of the refused program were released");
    assert!(harness.engine().workflow(order(2)).dev().start().await.is_ok());
}

/// Returns the stored body of a definition. It must not depend on the form of the definition.
async fn kept(harness: &TestHarness, ws: &str, name: &str) -> String {
    let rows = harness.store().dump().await.unwrap();
    let mut bodies = rows.iter().filter_map(|row| match row {
        Row::Def(def) if &*def.ws == ws && def.app == "shop" && def.name == name => {
            assert_eq!(def.version, 3);
            let mut body: Value = serde_json::from_str(def.body.as_str()).unwrap();
            body.as_object_mut().unwrap().remove("written");
            Some(body.to_string())
        }
        _ => None,
    });
    bodies.next().expect("it is registered")
}

/// Checks that the three forms of a definition are stored in the same way.
async fn compare(harness: &TestHarness, name: &str) {
    let calls = kept(harness, "calls", name).await;
    assert_eq!(kept(harness, "json", name).await, calls);
    assert_eq!(kept(harness, "toml", name).await, calls);
}

/// spec N49, controls: builder calls, JSON and TOML define the same workflow.
pub(crate) async fn calls_json_and_toml_are_the_same(harness: &TestHarness) {
    let calls = Workflow::new("order", nothing)
        .app("shop")
        .version(3)
        .on_event("order.*")
        .on_event("refund")
        .concurrency(Concurrency::limit(5).key("user.id"))
        .concurrency(Concurrency::limit(50).for_the_whole_run())
        .throttle(Rate::per_second(9).burst(2).key("user.id"))
        .rate_limit(Rate::of(100, secs(60)).burst(10))
        .debounce(Debounce::quiet(ms(500)).at_most(secs(5)).key("user.id"))
        .priority(Priority::shift(secs(7)))
        .singleton(Singleton::skip().key("user.id"))
        .idempotency(Idempotency::within(secs(60)).key("id"))
        .handoff(Handoff::keyed("user.id", OnNewVersion::Drain))
        .retry(Retry::attempts(7).exponential(secs(1), secs(60)))
        .timeout(secs(3600));
    let json = json!({
        "app": "shop", "name": "order", "version": 3,
        "triggers": ["order.*", "refund"],
        "concurrency": [{ "limit": 5, "key": "user.id" }, { "limit": 50, "span": "run" }],
        "throttle": { "limit": 9, "perMs": 1000, "burst": 2, "key": "user.id" },
        "rateLimit": { "limit": 100, "perMs": 60_000, "burst": 10 },
        "debounce": { "periodMs": 500, "maxWaitMs": 5000, "key": "user.id" },
        "priority": { "shiftMs": 7000 },
        "singleton": { "mode": "skip", "key": "user.id" },
        "idempotency": { "periodMs": 60_000, "key": "id" },
        "handoff": { "type": "keyed", "keyField": "user.id", "onNewVersion": "drain" },
        "retry": serde_json::to_value(Retry::attempts(7).exponential(secs(1), secs(60))).unwrap(),
        "timeoutMs": 3_600_000,
    });
    let toml = r#"
        app = "shop"
        name = "order"
        version = 3
        triggers = ["order.*", "refund"]
        throttle = { limit = 9, perMs = 1000, burst = 2, key = "user.id" }
        rateLimit = { limit = 100, perMs = 60_000, burst = 10 }
        debounce = { periodMs = 500, maxWaitMs = 5000, key = "user.id" }
        priority = { shiftMs = 7000 }
        idempotency = { periodMs = 60_000, key = "id" }
        timeoutMs = 3_600_000

        [[concurrency]]
        limit = 5
        key = "user.id"

        [[concurrency]]
        limit = 50
        span = "run"

        [singleton]
        mode = "skip"
        key = "user.id"

        [handoff]
        type = "keyed"
        keyField = "user.id"
        onNewVersion = "drain"
    "#;
    let toml =
        Workflow::from_toml(toml, nothing).retry(Retry::attempts(7).exponential(secs(1), secs(60)));
    let forms = [("calls", calls), ("json", data(json)), ("toml", toml)];
    for (ws, workflow) in forms {
        drop(harness.engine().workspaces([ws]).workflow(workflow).start().await.unwrap());
    }
    compare(harness, "order").await;
}

/// spec controls: the three forms are equal for a batch, whose handler takes a list.
pub(crate) async fn a_batch_is_the_same_in_every_form(harness: &TestHarness) {
    async fn all(_: Ctx, _: Vec<Value>) -> tidegate::Result<()> {
        Ok(())
    }
    let batch = Batch::of(9).within(secs(1)).max_bytes(1000).key("id");
    let calls = Workflow::new("order", all).app("shop").version(3).batch(batch);
    let fields = json!({ "maxSize": 9, "timeoutMs": 1000, "maxBytes": 1000, "key": "id" });
    let json = json!({ "app": "shop", "name": "order", "version": 3, "batch": fields });
    let toml = "app = 'shop'\nname = 'order'\nversion = 3\n\n[batch]\nmaxSize = 9\n\
                timeoutMs = 1000\nmaxBytes = 1000\nkey = 'id'";
    let json = Workflow::from_definition(json, all);
    let toml = Workflow::from_toml(toml, all);
    let all: [(_, ServedWorkflow); 3] =
        [("calls", calls.into()), ("json", json.into()), ("toml", toml.into())];
    for (ws, workflow) in all {
        drop(harness.engine().workspaces([ws]).workflow(workflow).start().await.unwrap());
    }
    compare(harness, "order").await;
}

/// spec B8, requests: the three forms are equal for a flow, whose actions get their code by name.
pub(crate) async fn a_flow_is_the_same_in_every_form(harness: &TestHarness) {
    let policies = [
        Policy::allow(),
        Policy::queue().at_most(secs(5)),
        Policy::reject().key("user"),
        Policy::restart().key("input.id"),
        Policy::debounce(secs(1)).at_most(secs(9)),
    ];
    let names = ["allow", "queue", "reject", "restart", "debounce", "default"];
    let mut calls = Flow::new("chat").app("shop").policy(Policy::queue());
    for (name, policy) in names.into_iter().zip(policies) {
        calls = calls.action(Action::new(name, nothing).version(3).policy(policy));
    }
    let calls = calls.action(Action::new("default", nothing).version(3));
    let json = Flow::from_definition(json!({
        "app": "shop", "name": "chat", "concurrency": "queue",
        "actions": {
            "allow": { "version": 3, "concurrency": "allow" },
            "queue": { "version": 3, "concurrency": { "policy": "queue", "maxWaitMs": 5000 } },
            "reject": { "version": 3, "concurrency": { "policy": "reject", "key": "user" } },
            "restart": { "version": 3, "concurrency": { "policy": "restart", "key": "input.id" } },
            "debounce": { "version": 3, "concurrency":
                { "policy": "debounce", "periodMs": 1000, "maxWaitMs": 9000 } },
            "default": { "version": 3 },
        },
    }));
    let toml = Flow::from_toml(
        r#"
        app = "shop"
        name = "chat"
        concurrency = "queue"

        [actions]
        allow = { version = 3, concurrency = "allow" }
        queue = { version = 3, concurrency = { policy = "queue", maxWaitMs = 5000 } }
        reject = { version = 3, concurrency = { policy = "reject", key = "user" } }
        restart = { version = 3, concurrency = { policy = "restart", key = "input.id" } }
        debounce.version = 3
        debounce.concurrency = { policy = "debounce", periodMs = 1000, maxWaitMs = 9000 }
        default = { version = 3 }
        "#,
    );
    let with_code = |flow: Flow| {
        names.into_iter().fold(flow, |flow, name| flow.action(Action::new(name, nothing)))
    };
    for (ws, flow) in [("calls", calls), ("json", with_code(json)), ("toml", with_code(toml))] {
        drop(harness.engine().workspaces([ws]).flow(flow).start().await.unwrap());
    }
    for name in names.map(|name| format!("chat/{name}")) {
        compare(harness, &name).await;
    }
}
