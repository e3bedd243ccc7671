//! Promises: every id that an answer contains can be looked up until retention deletes it.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_core::{
    draft::{Draft, Stop},
    event::Posted,
    explain::explain,
    id::{EventId, RunId, Seq},
    observe::{Part, receipts},
    reads::ReadSet,
    row::Ending,
};
use tidegate_store::{look, why};

use crate::world::{World, event, window};

fn cancelled(reason: &str, by: Option<RunId>) -> Ending {
    Ending::Cancelled { reason: reason.to_owned(), by }
}

/// Returns the ending of a run, and the sentence of its `why`.
async fn end_of(world: &World, run: RunId) -> (Ending, String) {
    let ended = world.ended(run).await.unwrap_or_else(|| panic!("{run} is gone"));
    let why = why(&*world.store, &world.ws, run).await.unwrap().unwrap();
    assert_eq!(why.state, ended.ending.state());
    (ended.ending, why.sentence)
}

/// Returns the receipts of an event: the outcome, and how the run that the receipt names was
/// cancelled.
async fn receipts_of(
    world: &World,
    event: EventId,
) -> Vec<(String, Option<(String, Option<RunId>)>)> {
    let which =
        receipts::ReceiptFilter { event: Some(event), ..receipts::ReceiptFilter::default() };
    let part = Part { below: None, limit: 9 };
    let page = look(&*world.store, &world.ws, |draft| {
        receipts::list::<()>(draft, &world.ws, &which, part)
    });
    let items = page.await.unwrap().items.into_iter().rev();
    let outcome = |receipt: &tidegate_core::row::Receipt| {
        receipt.verdict["outcome"].as_str().unwrap_or_default().to_owned()
    };
    items.map(|listed| (outcome(&listed.receipt), listed.cancelled)).collect()
}

/// spec A1: two windows fire with the same idempotency key. The second one ends as `deduped` and
/// names the run of the first, and so do the receipts of all events that it merged.
pub async fn a_window_that_lost_its_key_ends_as_deduped(world: &World) {
    let (debounce, once) = (json!({ "periodMs": 1000, "key": "doc" }), json!({ "key": "id" }));
    world.define(json!({ "name": "save", "debounce": debounce, "idempotency": once })).await;
    let (first, _) = window(&world.send("save", json!({ "doc": "a", "id": 1 })).await);
    world.pass(1);
    let free = world.post("save", json!({ "doc": "b", "id": 2 })).await;
    let taken = world.post("save", json!({ "doc": "b", "id": 1 })).await;
    let (second, _) = window(&taken.runs[0].verdict);
    world.tick(1000).await;
    assert_eq!(world.drain().await, [first], "there must be one run for the key");
    let (ending, sentence) = end_of(world, second).await;
    assert_eq!(ending, cancelled("deduped", Some(first)));
    assert_eq!(ending.deduped_by(), Some(first));
    assert!(sentence.contains(&first.to_string()), "{sentence}");
    let merged = ("coalesced".to_owned(), Some(("deduped".to_owned(), Some(first))));
    assert_eq!(receipts_of(world, free.id).await, std::slice::from_ref(&merged));
    assert_eq!(receipts_of(world, taken.id).await, [merged, ("deduped".to_owned(), None)]);
    let again = world.send("save", json!({ "doc": "c", "id": 2 })).await;
    let (third, _) = window(&again);
    world.tick(1000).await;
    assert_eq!(
        world.drain().await,
        [third],
        "the deduped window took the claim of an earlier event"
    );
}

/// Under the policy `debounce`, a request whose idempotency key was taken by another run ends as
/// `deduped` and names that run, too: its caller polls the run by its id.
pub async fn a_request_that_lost_its_key_ends_as_deduped(world: &World) {
    let policy = json!({ "policy": "debounce", "periodMs": 1000 });
    let action = json!({ "concurrency": policy, "idempotency": { "key": "input.id" } });
    world.define_flow(json!({ "name": "chat", "actions": { "say": action } })).await;
    let first = world.call("chat", "say", "s1", json!({ "id": 1 })).await.run().unwrap();
    world.pass(1);
    let second = world.call("chat", "say", "s2", json!({ "id": 1 })).await.run().unwrap();
    let sentence = why(&*world.store, &world.ws, second).await.unwrap().unwrap().sentence;
    assert!(sentence.contains("holds 1 events for it"), "{sentence}");
    world.tick(1000).await;
    assert_eq!(world.drain().await, [first]);
    assert_eq!(end_of(world, second).await.0, cancelled("deduped", Some(first)));
    let late = world.call("chat", "say", "s3", json!({ "id": 1 })).await;
    assert_eq!(late.outcome(), "deduped", "{late:?}");
}

/// spec F4: a window that opens a buffer keeps the id of its run; a window that joins a buffer
/// names the run with its event.
pub async fn a_window_that_fires_into_a_buffer_names_its_run(world: &World) {
    let debounce = json!({ "periodMs": 1000, "key": "doc" });
    let batch = json!({ "maxSize": 9, "timeoutMs": 5000 });
    world.define(json!({ "name": "index", "debounce": debounce, "batch": batch })).await;
    let (opens, _) = window(&world.send("index", json!({ "doc": "a" })).await);
    world.pass(1);
    let (joins, _) = window(&world.send("index", json!({ "doc": "b" })).await);
    world.tick(1000).await;
    let (ending, sentence) = end_of(world, joins).await;
    assert_eq!(ending, cancelled("buffered", Some(opens)));
    assert!(sentence.contains(&opens.to_string()), "{sentence}");
    assert_eq!(world.state(opens).await, "none", "it is collecting");
    assert!(why(&*world.store, &world.ws, opens).await.unwrap().is_ok());
    world.tick(5000).await;
    assert_eq!(world.drain().await, [opens]);
    let both = vec![json!({ "doc": "a" }), json!({ "doc": "b" })];
    assert_eq!(world.inputs_of(opens).await, Some(both));
}

/// If a release requires a key, windows without it that were opened before are refused when they
/// fire, and their runs say so.
pub async fn a_window_that_a_release_refuses_ends(world: &World) {
    let debounce = json!({ "periodMs": 1000 });
    world.define(json!({ "name": "save", "version": 1, "debounce": debounce })).await;
    let (run, _) = window(&world.send("save", json!({ "n": 1 })).await);
    let handoff = json!({ "type": "keyed", "keyField": "tenant", "onNewVersion": "drain" });
    let second = json!({
        "name": "save", "version": 2, "debounce": debounce, "handoff": handoff,
    });
    world.define(second).await;
    world.tick(1000).await;
    assert!(world.drain().await.is_empty());
    let (ending, sentence) = end_of(world, run).await;
    assert_eq!(ending.state(), "cancelled");
    assert!(sentence.contains("rejected by handoff: the required key `tenant`"), "{sentence}");
}

/// An open window is found by the id of its run, however many windows are open.
pub async fn an_open_window_is_found_among_many(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000, "key": "doc" } })).await;
    // The keys sort like their numbers, so that the last windows come last in a scan.
    let event = |n: usize| event("save", &json!({ "doc": format!("{n:04}") }));
    let mut last = None;
    for from in [0, 501] {
        let posted = world.post_all((from..from + 501).map(event).collect()).await;
        last = posted.last().and_then(Posted::run);
    }
    let last = last.unwrap();
    assert_eq!(rows_read(world, last).await, (true, 1), "the window");
    // A client may send any id. The lookup of an unknown one must not scan all windows.
    let unknown = RunId { seq: Seq(last.seq.0 + 1_000_000), ..last };
    assert_eq!(rows_read(world, unknown).await, (false, 0));
    let forged = RunId { salt: last.salt ^ 1, ..last };
    assert_eq!(rows_read(world, forged).await, (false, 1), "the window of another run was found");
}

/// An open buffer is found by the ids of all its runs: each full chunk has a run of its own.
pub async fn an_open_buffer_is_found_by_all_its_runs(world: &World) {
    let batch = json!({ "maxSize": 2, "timeoutMs": 1000 });
    let single = json!({ "mode": "skip" });
    world.define(json!({ "name": "index", "batch": batch, "singleton": single })).await;
    world.send("index", json!(1)).await;
    world.send("index", json!(2)).await;
    let holder = world.lease_one().await.id;
    let mut runs = BTreeSet::new();
    for n in 3..8 {
        runs.extend(world.send("index", json!(n)).await.run());
    }
    assert_eq!(runs.len(), 3, "the held buffer must have three chunks: {runs:?}");
    for run in &runs {
        assert!(rows_read(world, *run).await.0, "{run}");
    }
    let unknown = RunId { seq: Seq(holder.seq.0 + 1_000_000), ..holder };
    assert_eq!(rows_read(world, unknown).await, (false, 0));
    let forged = RunId { salt: holder.salt ^ 1, ..holder };
    assert!(!rows_read(world, forged).await.0);
}

/// Returns whether `why` finds a run, and the number of rows that it read, without runs.
async fn rows_read(world: &World, run: RunId) -> (bool, usize) {
    let mut reads = ReadSet::default().catalog(&world.ws);
    loop {
        let snapshot = world.store.read(reads.clone()).await.unwrap();
        let found: usize = snapshot.scans.values().map(|found| found.keys.len()).sum();
        match explain(&Draft::new(snapshot), &world.ws, run) {
            Ok(_) => return (true, found),
            Err(Stop::Need(more)) => reads.merge(*more),
            Err(_) => return (false, found),
        }
    }
}

/// If a release refuses a whole buffer, the idempotency keys of its events are free again.
pub async fn a_buffer_that_a_release_refuses_gives_its_keys_back(world: &World) {
    let batch = json!({ "maxSize": 9, "timeoutMs": 1000, "key": "tenant" });
    let once = json!({ "key": "id", "periodMs": 86_400_000 });
    let first = json!({
        "name": "index", "version": 1, "batch": batch, "idempotency": once,
    });
    world.define(first.clone()).await;
    let run = world.send("index", json!({ "id": 1 })).await.run().unwrap();
    world.send("index", json!({ "id": 2 })).await;
    assert_eq!(world.send("index", json!({ "id": 2 })).await.outcome(), "deduped");
    let handoff = json!({ "type": "keyed", "keyField": "tenant", "onNewVersion": "drain" });
    let mut second = first.clone();
    second["version"] = json!(2);
    second["handoff"] = handoff;
    world.define(second).await;
    world.tick(1000).await;
    assert!(world.drain().await.is_empty());
    let (ending, sentence) = end_of(world, run).await;
    assert_eq!(ending.state(), "cancelled", "{sentence}");
    for id in [1, 2] {
        let again = world.send("index", json!({ "id": id, "tenant": "a" })).await;
        assert_eq!(
            again.outcome(),
            "buffered",
            "the key of the refused buffer must be free: {again:?}"
        );
    }
}
