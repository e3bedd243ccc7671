//! Retired workflows: they start no new runs, their accepted runs continue, and they can be defined
//! again.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    flow::Verdict,
};

use crate::world::{World, request};

async fn retire(world: &World, name: &str) -> Result<u32, Refusal> {
    let (ws, app, name) = (world.ws.clone(), "default".to_owned(), name.to_owned());
    match world.run(Command::Retire { ws, app, name }).await? {
        Answer::Retired(retired) => Ok(retired.live),
        other => panic!("unexpected answer to retiring a workflow: {other:?}"),
    }
}

fn gone(name: &str) -> Refusal {
    Refusal::NoWorkflow { app: "default".to_owned(), name: name.to_owned() }
}

/// Whether an event of this name starts no run.
async fn is_ignored(world: &World, name: &str) -> bool {
    world.post(name, json!({})).await.runs.is_empty()
}

/// spec retired: no event, request, schedule, parent or replay starts a retired workflow.
pub async fn nothing_starts_a_retired_workflow(world: &World) {
    let triggers = json!(["order", "all.*", { "cron": "@daily" }]);
    world.define(json!({ "name": "order", "triggers": triggers })).await;
    world.define(json!({ "name": "respond", "flow": "chat" })).await;
    let at = world.now();
    assert!(world.plan("order", "@daily", at).await);
    let run = world.drive("order", json!({})).await;
    world.complete(&run).await;
    assert_eq!(retire(world, "order").await, Ok(0));
    assert_eq!(retire(world, "chat/respond").await, Ok(0));
    assert!(is_ignored(world, "order").await && is_ignored(world, "all.of.it").await);
    let ws = world.ws.clone();
    let call =
        Command::Dispatch { ws, request: request("chat", "respond", None, None, &json!({})) };
    assert_eq!(world.run(call).await, Err(gone("chat/respond")));
    assert!(world.schedules().await.is_empty() && !world.plan("order", "@daily", at).await);
    assert_eq!(world.try_replay(run.id, None, None).await, Err(gone("order")));
    assert_eq!(world.state(run.id).await, "completed", "its history stays");
    assert_eq!(
        retire(world, "order").await,
        Err(gone("order")),
        "a retired workflow must not be found"
    );
    assert_eq!(retire(world, "nobody").await, Err(gone("nobody")));
}

/// Runs of a retired workflow continue under the same limits, and its open windows and buffers are
/// flushed.
pub async fn what_a_retired_workflow_has_accepted_goes_on(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1 } })).await;
    let batch = json!({ "maxSize": 9, "timeoutMs": 1000 });
    world.define(json!({ "name": "index", "batch": batch })).await;
    let first = world.drive("sync", json!(1)).await;
    let second = world.send_for_run("sync", json!(2)).await;
    let third = world.send_for_run("sync", json!(3)).await;
    let buffered = world.send("index", json!(1)).await;
    assert_eq!(retire(world, "sync").await, Ok(3));
    assert_eq!(retire(world, "index").await, Ok(0));
    assert!(world.lease_all().await.is_empty(), "the limit must still hold");
    world.complete(&first).await;
    let next = world.lease_one().await;
    assert_eq!(next.id, second);
    world.complete(&next).await;
    assert_eq!(world.lease_one().await.id, third);
    world.tick(1000).await;
    let flushed = world.lease_one().await;
    assert!(matches!(buffered, Verdict::Buffered { run, .. } if run == flushed.id));
    assert_eq!(flushed.version, 1);
    world.check_holds().await;
}

/// A retired workflow that is defined again starts runs again, and assigned numbers count on. If
/// the author gives the numbers, the same number does not bring it back: that takes a higher number
/// or a release.
pub async fn a_retired_workflow_comes_back(world: &World) {
    let slots = |limit: u32| json!({ "name": "order", "concurrency": { "limit": limit } });
    let numbered = |version: u32| json!({ "name": "own", "version": version });
    let defined = async |definition: Value| {
        let registered = world.define(definition).await;
        (registered.version, registered.unchanged, registered.released.is_some())
    };
    assert_eq!(defined(slots(1)).await, (1, false, true));
    for (limit, expected) in [(1, (1, true, true)), (2, (2, false, true)), (2, (2, true, true))] {
        retire(world, "order").await.expect("it is there");
        assert!(is_ignored(world, "order").await);
        assert_eq!(defined(slots(limit)).await, expected);
        let run = world.drive("order", json!({})).await;
        assert_eq!(run.version, expected.0);
        world.complete(&run).await;
    }
    assert_eq!(defined(slots(2)).await, (2, true, false), "it is there");
    defined(numbered(1)).await;
    retire(world, "own").await.expect("it is there");
    assert_eq!(defined(numbered(1)).await, (1, true, false));
    assert!(is_ignored(world, "own").await, "a restarted program brought a retired workflow back");
    world.release("own", 1).await;
    assert!(!is_ignored(world, "own").await);
    retire(world, "own").await.expect("it is there");
    assert_eq!(defined(numbered(2)).await, (2, false, true));
    assert!(!is_ignored(world, "own").await);
}
