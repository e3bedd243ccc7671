//! Timeline of a run: all spans from its admission to its end, without gaps.

use serde_json::{Value, json};
use tidegate_core::{
    id::RunId,
    observe::{origin, timeline},
};
use tidegate_store::look;

use crate::{worker::for_child, world::World};

/// Returns each span as text: its kind, its gate, and its start and end in milliseconds.
async fn life(world: &World, run: RunId, began: i64) -> Vec<String> {
    let answer =
        look(&*world.store, &world.ws, |draft| timeline::timeline::<()>(draft, &world.ws, run));
    let answer = answer.await.unwrap().expect("there is such a run");
    let ms = |at: Option<tidegate_core::time::Timestamp>| {
        at.map_or_else(|| "…".to_owned(), |at| ((at.micros() - began) / 1000).to_string())
    };
    let mut lines: Vec<_> = answer
        .spans
        .iter()
        .map(|span| {
            let parts = [span.control, span.on].into_iter().flatten().map(str::to_owned);
            let parts = parts.chain(span.key.clone()).chain(span.step.clone());
            let parts: Vec<_> = [span.kind.to_owned()].into_iter().chain(parts).collect();
            format!("{} {}-{}", parts.join(" "), ms(span.from), ms(span.to))
        })
        .collect();
    assert_eq!(answer.waited_ms, answer.waited.iter().map(|it| it.ms).sum::<u64>());
    let waited = answer.waited.iter().map(|it| format!("{} {} {}", it.control, it.key, it.ms));
    lines.push(format!("waited {}", waited.collect::<Vec<_>>().join(", ")));
    lines
}

/// spec timeline: the waiting time of a run is divided by gate, and the parts add up to the whole.
/// Spans of zero length are left out; the timeline is the same after the end of the run.
pub async fn where_a_run_has_been_is_told_without_gaps(world: &World) {
    let concurrency = json!([{ "limit": 1, "key": "tenant" }]);
    let throttle = json!({ "limit": 1, "perMs": 10_000 });
    world.define(json!({ "name": "w", "concurrency": concurrency, "throttle": throttle })).await;
    let began = world.now().micros();
    let data = json!({ "tenant": "acme" });
    let first = world.send_for_run("w", data.clone()).await;
    let second = world.send_for_run("w", data).await;
    let driven = world.lease_one().await;
    assert_eq!(driven.id, first);
    assert_eq!(life(world, first, began).await, ["running 0-…", "waited "]);
    world.tick(10_000).await;
    world.tick(2000).await;
    // At 10 s the throttle admits the second run; then it waits for the slot of its tenant.
    let line = |to: &str| format!("queued concurrency acme 10000-{to}");
    let at_first = "queued throttle (whole) 0-10000".to_owned();
    let waited = "waited throttle (whole) 10000, concurrency acme 2000".to_owned();
    assert_eq!(life(world, second, began).await, [at_first.clone(), line("…"), waited]);
    world.sleep(&driven, "nap", 5000).await;
    let driven = world.lease_one().await;
    assert_eq!(driven.id, second);
    world.pass(1000);
    world.complete(&driven).await;
    let waited = "waited throttle (whole) 10000, concurrency acme 2000".to_owned();
    let ran = "running 12000-13000".to_owned();
    assert_eq!(life(world, second, began).await, [at_first, line("12000"), ran, waited]);
    world.tick(4000).await;
    world.tick(2000).await;
    world.pause(first).await.unwrap();
    world.pass(500);
    world.resume(first).await.unwrap();
    world.pass(250);
    let driven = world.lease_one().await;
    world.pass(250);
    world.complete(&driven).await;
    let answer = life(world, first, began).await;
    assert_eq!(answer[0], "running 0-12000");
    assert_eq!(answer[1], "waiting time nap 12000-17000");
    assert_eq!(answer.last().unwrap(), "waited   2250");
    assert!(answer.contains(&"paused 19000-19500".to_owned()), "{answer:?}");
    assert_eq!(answer[answer.len() - 2], "running 19750-20000");
}

/// spec timeline: the page of a run shows its input, and its parent, children and events.
pub async fn a_run_knows_where_it_came_from(world: &World) {
    world.define(json!({ "name": "one" })).await;
    world.define(json!({ "name": "many", "batch": { "maxSize": 2, "timeoutMs": 1000 } })).await;
    let one = world.send_for_run("one", json!({ "n": 1 })).await;
    let of = async |run| {
        let answer =
            look(&*world.store, &world.ws, |draft| origin::origin::<()>(draft, &world.ws, run));
        let answer = answer.await.unwrap()?;
        let inputs: Vec<Value> = answer
            .inputs
            .iter()
            .map(|it| serde_json::from_str(it.data.as_str()).unwrap())
            .collect();
        Some((answer.name, answer.batch, json!(inputs)))
    };
    assert_eq!(of(one).await, Some(("one".to_owned(), false, json!([{ "n": 1 }]))));
    world.send("many", json!(1)).await;
    world.send("many", json!(2)).await;
    let runs = world.lease_all().await;
    let many = runs.iter().find(|run| run.workflow == "many").unwrap();
    assert_eq!(of(many.id).await, Some(("many".to_owned(), true, json!([1, 2]))));
    for run in &runs {
        world.complete(run).await;
    }
    assert_eq!(of(many.id).await, Some(("many".to_owned(), true, json!([1, 2]))));
    let parent = world.drive("one", json!(1)).await;
    let parts = ["a", "b"].map(|step| for_child(step, "one", &json!({})));
    world.suspend(&parent, parts.to_vec()).await;
    let family = async |run: RunId| {
        let answer =
            look(&*world.store, &world.ws, |draft| origin::origin::<()>(draft, &world.ws, run));
        let answer = answer.await.unwrap().expect("there is such a run");
        (answer.parent, answer.children)
    };
    let children = family(parent.id).await.1;
    assert_eq!(children.len(), 2);
    world.pass(1000);
    for child in world.lease_all().await {
        assert!(children.contains(&child.id));
        assert_eq!(family(child.id).await.0, Some(parent.id));
        world.complete(&child).await;
    }
    let parent = world.lease_one().await;
    world.complete(&parent).await;
    assert_eq!(
        family(parent.id).await.1,
        children,
        "the children must be listed after their end, too"
    );
    let other = world.in_workspace("other");
    let elsewhere =
        look(&*other.store, &other.ws, |draft| origin::origin::<()>(draft, &other.ws, one));
    assert_eq!(elsewhere.await.unwrap(), None, "a run of another workspace was found");
}
