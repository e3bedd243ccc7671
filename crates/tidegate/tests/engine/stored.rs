//! Definitions that are added while engines run. Their handlers come from a resolver.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::{Ctx, EngineBuilder, Error, Handler, Result, testing::TestHarness};
use tidegate_core::{
    definition::Definition,
    json::Payload,
    reads::{Change, ReadSet},
    row::{Engine as Peer, Row, Run},
};
use tidegate_store::Decision;

use crate::{
    reactions::append,
    words::{Journal, secs, sharing, start, states, work},
};

/// A handler that returns the URL of its definition and the version of the run.
struct Answer(String);

impl Handler for Answer {
    fn call(&self, ctx: Ctx) -> std::pin::Pin<Box<dyn Future<Output = Result<Payload>> + Send>> {
        let url = self.0.clone();
        Box::pin(async move {
            ctx.sleep("nap", secs(10)).await?;
            Ok(Payload::from_value(&json!([url, ctx.version()])))
        })
    }
}

fn by_url(builder: EngineBuilder) -> EngineBuilder {
    builder.handler_resolver(|definition: &Definition| -> Option<Arc<dyn Handler>> {
        Some(Arc::new(Answer(definition.url.clone()?)))
    })
}

/// spec versions: a definition that is added through one engine is served by all engines that have
/// code for it, each version by its own code. An unchanged definition makes no new version.
pub(crate) async fn a_definition_is_served_as_soon_as_it_is_there(harness: &TestHarness) {
    let one = by_url(sharing(harness)).start().await.unwrap();
    let two = by_url(sharing(harness)).call_workers(0).start().await.unwrap();
    let sync = |url: &str| json!({ "name": "sync", "url": url });
    assert_eq!(two.define(&sync("http://one")).await.unwrap().version, 1);
    let old = start(&two, "sync", json!({})).await;
    harness.advance(secs(2)).await;
    assert_eq!(states(harness, "sync").await, ["waiting"], "the other engine must drive the run");
    let again = two.define(&sync("http://one")).await.unwrap();
    assert_eq!((again.version, again.unchanged), (1, true));
    assert_eq!(two.define(&sync("http://two")).await.unwrap().version, 2);
    let new = start(&two, "sync", json!({})).await;
    harness.advance(secs(20)).await;
    assert_eq!(harness.completed(&one, old).await, json!(["http://one", 1]));
    assert_eq!(harness.completed(&one, new).await, json!(["http://two", 2]));
}

/// spec schedules: a schedule starts when it is defined. An engine that starts later serves the
/// stored definitions, except those that it has no code for.
pub(crate) async fn a_schedule_begins_with_its_definition(harness: &TestHarness) {
    let engine = by_url(sharing(harness)).start().await.unwrap();
    harness.advance(secs(5)).await;
    let tick = json!({ "name": "tick", "url": "http://t", "triggers": [{ "cron": "* * * * *" }] });
    engine.define(&tick).await.unwrap();
    engine.define(&json!({ "name": "other" })).await.unwrap();
    harness.advance(secs(130)).await;
    assert_eq!(states(harness, "tick").await, ["completed", "completed"]);
    engine.shutdown().await;
    let engine = by_url(sharing(harness)).start().await.unwrap();
    let other = start(&engine, "other", Value::Null).await;
    harness.advance(secs(60)).await;
    assert_eq!(states(harness, "tick").await.len(), 3);
    assert!(engine.why(other).await.unwrap().stranded);
}

/// spec schedules: a schedule that another program defines starts on this engine, in addition to
/// those that it already serves.
pub(crate) async fn a_schedule_of_others_begins_beside_ones_own(harness: &TestHarness) {
    let tick = |name: &str| json!({ "name": name, "url": "http://t", "triggers": [{ "cron": "* * * * *" }] });
    let engine = by_url(sharing(harness)).start().await.unwrap();
    engine.define(&tick("first")).await.unwrap();
    harness.advance(secs(65)).await;
    // The other engine has no code for the schedule's workflow, so only the first engine can plan
    // it.
    let other = sharing(harness).start().await.unwrap();
    other.define(&tick("second")).await.unwrap();
    harness.advance(secs(120)).await;
    assert_eq!(states(harness, "first").await.len(), 3);
    assert_eq!(states(harness, "second").await.len(), 2);
}

/// spec A5: a definition that is added later may have a stream trigger, which applies to events
/// from then on.
pub(crate) async fn a_stream_can_trigger_what_is_defined_later(harness: &TestHarness) {
    let engine = by_url(sharing(harness)).start().await.unwrap();
    append(harness, "orders", &[("paid", json!(1))]).await;
    let pack = json!({ "name": "pack", "url": "http://p", "triggers": [{ "stream": "paid" }] });
    engine.define(&pack).await.unwrap();
    assert!(
        states(harness, "pack").await.is_empty(),
        "events before the trigger was defined must start no run"
    );
    append(harness, "orders", &[("paid", json!(2))]).await;
    harness.advance(secs(2)).await;
    assert_eq!(states(harness, "pack").await, ["waiting"]);
    let bad =
        json!({ "name": "f", "actions": { "a": { "triggers": [{ "cron": "61 * * * *" }] } } });
    let refused = engine.define_flow(&bad).await;
    assert!(matches!(&refused, Err(Error::Definition(it)) if it.len() == 1), "{refused:?}");
}

/// A version counts as served if the row of a live engine says so. The row of a dead engine does
/// not count, even while some of its runs are not taken over yet.
pub(crate) async fn a_dead_engine_serves_nothing(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = harness.engine().workflow(work(&journal, "here", secs(10))).start().await.unwrap();
    let registered = engine.define(&json!({ "name": "elsewhere" })).await.unwrap();
    assert!(
        !engine.is_served(&registered).await.unwrap(),
        "the version must not be served: this engine has no code for it"
    );
    let run = start(&engine, "here", json!({})).await;
    harness.settle().await;
    let run = engine.look_up(run).await.unwrap().0.unwrap();
    for dead in [false, true] {
        let serves = vec![registered.lane];
        let row = Row::Engine(Peer { dead, serves, ..Peer::new(7, 30_000) });
        let owned = Row::from(Run { owner: Some(7), ..run.clone() });
        let row = if dead { Change::Update(row) } else { Change::Insert(row) };
        let changes = vec![row, Change::Update(owned)];
        let decide = move |_| Decision::Apply(changes.clone());
        harness.store().transact(ReadSet::default(), Box::new(decide)).await.unwrap();
        assert_eq!(engine.is_served(&registered).await.unwrap(), !dead);
    }
}

/// spec A4: a definition that is added later is checked like any other. An invalid definition has
/// no effect.
pub(crate) async fn a_bad_definition_changes_nothing(harness: &TestHarness) {
    let engine = by_url(harness.engine()).start().await.unwrap();
    for (bad, what) in [
        (json!({ "name": "a", "url": "ftp://x", "throttle": { "limit": 0, "perMs": 1 } }), 2),
        (json!({ "name": "a", "triggers": [{ "cron": "61 * * * *" }] }), 1),
        (json!([]), 1),
    ] {
        match engine.define(&bad).await {
            Err(Error::Definition(problems)) => assert_eq!(problems.len(), what, "{problems:?}"),
            other => panic!("the invalid definition {bad} got the answer {other:?}"),
        }
    }
    assert!(engine.send("a", json!({})).await.unwrap().runs.is_empty());
}
