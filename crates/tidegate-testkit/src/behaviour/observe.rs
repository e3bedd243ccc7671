//! Console queries: they read the same rows as the decisions, and agree with them.

use serde_json::{Value, json};
use tidegate_core::{
    draft::{Decided, Draft},
    id::RunId,
    list::RunFilter,
    observe::{
        Part,
        events::{self, Name},
        folds, gates, receipts, stats,
    },
    row::{GateKey, Row, RowKey},
};
use tidegate_store::look;

use crate::world::{World, event};

async fn seen<T>(world: &World, view: impl Fn(&Draft) -> Decided<T, ()>) -> T {
    look(&*world.store, &world.ws, view).await.unwrap()
}

async fn stats_of(world: &World) -> Value {
    json!(seen(world, |draft| stats::stats(draft, &world.ws)).await)
}

async fn flow_state(world: &World, app: Option<&str>, workflow: Option<&str>) -> Value {
    json!(seen(world, |draft| folds::flow_state(draft, &world.ws, app, workflow)).await)
}

/// Returns all matching gates, page by page.
async fn gates_of(world: &World, which: &gates::GateFilter, limit: u32) -> Vec<gates::GateView> {
    let (mut all, mut after): (Vec<gates::GateView>, Option<GateKey>) = (Vec::new(), None);
    loop {
        let page =
            seen(world, |draft| gates::list(draft, &world.ws, which, after.as_ref(), limit)).await;
        assert!(page.gates.len() <= limit as usize);
        all.extend(page.gates);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

/// spec B136, stats: each run is counted once, under its state.
pub async fn runs_are_counted_where_they_are(world: &World) {
    world.define(json!({ "name": "a", "concurrency": { "limit": 2 } })).await;
    world.define(json!({ "name": "b" })).await;
    let other = world.in_workspace("other");
    other.define(json!({ "name": "a" })).await;
    other.send("a", json!(1)).await;
    for n in 0..6 {
        world.send("a", json!(n)).await;
    }
    let mut sent = Vec::new();
    for n in 0..4 {
        sent.push(world.send_for_run("b", json!(n)).await);
    }
    world.pause(sent[3]).await.unwrap();
    let driven = world.lease_all().await;
    let nap = driven.iter().find(|run| run.workflow == "b").unwrap();
    world.sleep(nap, "nap", 1000).await;
    // All runs are stranded: no engine of this test has registered the versions that it serves.
    let expected = json!({
        "inFlight": 4, "queued": 4, "waiting": 1, "paused": 1, "stranded": 10,
        "byWorkflow": [
            { "app": "default", "workflow": "a", "version": 1,
              "inFlight": 2, "queued": 4, "waiting": 0, "paused": 0, "stranded": 6 },
            { "app": "default", "workflow": "b", "version": 1,
              "inFlight": 2, "queued": 0, "waiting": 1, "paused": 1, "stranded": 4 },
        ],
    });
    assert_eq!(stats_of(world).await, expected);
    // The cancelled run keeps its slot until its worker has stopped.
    let a = driven.iter().find(|run| run.workflow == "a").unwrap();
    world.cancel(a.id).await.unwrap();
    assert_eq!(stats_of(world).await, expected);
    world.stopped(a).await;
    let now = stats_of(world).await;
    assert_eq!((&now["inFlight"], &now["queued"]), (&json!(3), &json!(4)));
    world.resume(sent[3]).await.unwrap();
    world.tick(1000).await;
    world.drain().await;
    let now = stats_of(world).await;
    assert_eq!((&now["waiting"], &now["paused"]), (&json!(0), &json!(0)));
}

/// spec B134, B135, B140: pending events are counted by workflow, and no longer counted when they
/// have become runs.
pub async fn what_is_pending_goes_down_with_the_flush(world: &World) {
    world.define(json!({ "name": "save", "debounce": { "periodMs": 1000, "key": "doc" } })).await;
    let batch = json!({ "maxSize": 3, "timeoutMs": 5000 });
    world.define(json!({ "name": "index", "app": "shop", "batch": batch })).await;
    world.define(json!({ "name": "plain" })).await;
    let save = json!({
        "app": "default", "workflow": "save",
        "debounce": { "pending": 3, "keys": [
            { "key": "a", "pending": 2, "fireAt": world.now().plus_ms(1000).rfc3339() },
            { "key": "b", "pending": 1, "fireAt": world.now().plus_ms(1000).rfc3339() },
        ] },
        "batch": { "pending": 0, "keys": [] },
    });
    let index = json!({
        "app": "shop", "workflow": "index",
        "debounce": { "pending": 0, "keys": [] },
        "batch": { "pending": 2, "keys": [
            { "key": "(whole)", "pending": 2, "maxSize": 3,
              "flushAt": world.now().plus_ms(5000).rfc3339() },
        ] },
    });
    for doc in ["a", "a", "b"] {
        world.send("save", json!({ "doc": doc })).await;
    }
    for n in 0..2 {
        world.send("index", json!(n)).await;
    }
    assert_eq!(flow_state(world, None, None).await, json!({ "workflows": [save, index] }));
    assert_eq!(flow_state(world, Some("shop"), None).await, json!({ "workflows": [index] }));
    assert_eq!(flow_state(world, None, Some("save")).await, json!({ "workflows": [save] }));
    assert_eq!(flow_state(world, Some("shop"), Some("save")).await, json!({ "workflows": [] }));
    let pending = async || {
        let state = flow_state(world, None, None).await;
        let of = |at: usize, what: &str| state["workflows"][at][what]["pending"].as_u64().unwrap();
        (of(0, "debounce"), of(1, "batch"), stats_of(world).await["queued"].as_u64().unwrap())
    };
    assert_eq!(pending().await, (3, 2, 0));
    world.send("index", json!(2)).await;
    assert_eq!(pending().await, (3, 0, 1), "the third event must fill the buffer");
    world.tick(1000).await;
    assert_eq!(pending().await, (0, 0, 3), "there must be one run for each key");
}

/// spec stats: gates are listed with their holders and queues, filtered and page by page.
pub async fn gates_say_who_is_inside_and_who_waits(world: &World) {
    let concurrency = json!({ "limit": 2, "key": "k" });
    world.define(json!({ "name": "a", "concurrency": concurrency })).await;
    let throttle = json!({ "limit": 1, "perMs": 1000 });
    world.define(json!({ "name": "b", "throttle": throttle })).await;
    let rate = json!({ "limit": 10, "perMs": 1000 });
    world.define(json!({ "name": "c", "rateLimit": rate, "idempotency": { "key": "k" } })).await;
    let mut sent: Vec<RunId> = Vec::new();
    for n in 0..5 {
        sent.push(world.send_for_run("a", json!({ "k": "x", "n": n })).await);
        world.pass(10);
    }
    world.send("a", json!({ "k": "yes" })).await;
    for n in 0..3 {
        world.send("b", json!(n)).await;
        world.send("c", json!({ "k": n })).await;
    }
    let all = gates_of(world, &gates::GateFilter::default(), 100).await;
    let named: Vec<_> = all.iter().map(|it| (it.control, it.key.as_str())).collect();
    assert_eq!(named[2..], [("concurrency", "x"), ("concurrency", "yes")]);
    assert_eq!(
        [named[0].0, named[1].0],
        ["rateLimit", "throttle"],
        "in the order in which they act"
    );
    for limit in [1, 2, 3] {
        assert_eq!(gates_of(world, &gates::GateFilter::default(), limit).await, all);
    }
    let gate = &all[2];
    assert_eq!((gate.limit, gate.inside), (Some(2), Some(2)));
    assert_eq!(gate.holders, sent[..2]);
    let line = gate.line.as_ref().unwrap();
    assert_eq!((line.count, &line.first[..]), (3, &sent[2..]));
    assert_eq!(line.since, Some(world.now().minus_ms(30)));
    assert_eq!(all[3].line.as_ref().unwrap().count, 0);
    let meter = &all[0];
    assert_eq!((meter.limit, meter.tokens), (Some(10), Some(7)));
    let turns = &all[1];
    assert_eq!((turns.tokens, turns.line.as_ref().unwrap().count), (Some(0), 2));
    let some = |which: gates::GateFilter| async move { gates_of(world, &which, 2).await.len() };
    let text = |text: &str| Some(text.to_owned());
    let none = gates::GateFilter::default();
    assert_eq!(some(gates::GateFilter { key: text("x"), ..none.clone() }).await, 1);
    assert_eq!(some(gates::GateFilter { workflow: text("a"), ..none.clone() }).await, 2);
    assert_eq!(some(gates::GateFilter { app: text("none"), ..none.clone() }).await, 0);
    assert_eq!(some(gates::GateFilter { control: text("throttle"), ..none.clone() }).await, 1);
    assert_eq!(some(gates::GateFilter { control: text("idempotency"), ..none.clone() }).await, 3);
    assert_eq!(gates_of(&world.in_workspace("other"), &none, 9).await, []);
}

/// spec events, N15: events and receipts are listed newest first, completely, with stable pages and
/// filters.
pub async fn events_and_receipts_are_listed_newest_first(world: &World) {
    world.define(json!({ "name": "a", "singleton": { "mode": "skip", "key": "k" } })).await;
    world.define(json!({ "name": "b", "triggers": ["a", "b.*"] })).await;
    let mut posted = Vec::new();
    for (name, key) in [("a", "x"), ("a", "x"), ("b.one", "y"), ("a", "y"), ("b.two", "z")] {
        posted.insert(0, world.post(name, json!({ "k": key })).await.id);
    }
    let other = world.in_workspace("other");
    other.post("a", json!(1)).await;
    for (name, count) in [("*", 5), ("a", 3), ("b.*", 2), ("b.o*", 1), ("c", 0)] {
        let name = Name::parse(name);
        let (mut ids, mut below) = (Vec::new(), None);
        loop {
            let part = Part { below, limit: 2 };
            let page = seen(world, |draft| events::list(draft, &world.ws, &name, part)).await;
            ids.extend(page.items.into_iter().map(|event| event.id));
            if below.is_none() {
                world.post("late", json!(null)).await;
            }
            below = page.next;
            if below.is_none() {
                break;
            }
        }
        ids.retain(|id| posted.contains(id));
        assert_eq!(ids.len(), count, "{name:?}");
        assert!(ids.is_sorted_by(|a, b| a > b), "{name:?}");
    }
    let skipped = posted[3];
    let which = |key: Option<&str>, workflow: Option<&str>, event| receipts::ReceiptFilter {
        key: key.map(str::to_owned),
        workflow: workflow.map(str::to_owned),
        event,
        ..receipts::ReceiptFilter::default()
    };
    for (which, expected) in [
        (which(None, None, None), vec![skipped]),
        (which(Some("x"), None, None), vec![skipped]),
        (which(Some("y"), None, None), vec![]),
        (which(None, Some("b"), None), vec![]),
        (which(None, None, Some(skipped)), vec![skipped]),
        (which(None, None, Some(posted[0])), vec![]),
    ] {
        let part = Part { below: None, limit: 9 };
        let page = seen(world, |draft| receipts::list(draft, &world.ws, &which, part)).await;
        let of: Vec<_> = page.items.iter().map(|it| it.event.unwrap()).collect();
        assert_eq!(of, expected, "{which:?}");
    }
    let theirs = seen(&other, |draft| {
        let part = Part { below: None, limit: 9 };
        receipts::list(draft, &other.ws, &which(None, None, Some(skipped)), part)
    });
    assert_eq!(theirs.await.items, [], "a receipt of another workspace was listed");
    assert_eq!(seen(&other, |draft| events::show(draft, &other.ws, skipped)).await, None);
}

/// spec events: an event is shown with its verdicts and its runs: ended ones, future ones, and
/// those of a batch.
pub async fn an_event_is_shown_with_all_that_came_of_it(world: &World) {
    world.define(json!({ "name": "a" })).await;
    let batch = json!({ "maxSize": 2, "timeoutMs": 5000 });
    world.define(json!({ "name": "b", "triggers": ["a"], "batch": batch })).await;
    let first = world.post("a", json!(1)).await;
    let (plain, batch) = (first.runs[0].verdict.run().unwrap(), first.runs[1].verdict.run());
    let shown = async |id| seen(world, |draft| events::show(draft, &world.ws, id)).await.unwrap();
    let keys = |rows: &[Row]| rows.iter().map(Row::key).collect::<Vec<_>>();
    let answer = shown(first.id).await;
    assert_eq!(keys(&answer.runs), [RowKey::Run(plain.seq)]);
    assert_eq!(
        answer.receipts[0].receipt.verdict["runId"],
        json!(batch),
        "the receipt must name the future run of the batch"
    );
    let second = world.post_event(event("a", &json!(2))).await;
    world.drain().await;
    let carried = RowKey::Ended(batch.unwrap().seq);
    assert_eq!(keys(&shown(first.id).await.runs), [RowKey::Ended(plain.seq), carried.clone()]);
    let started = second.runs[0].verdict.run().unwrap();
    let mut expected = [RowKey::Ended(started.seq), carried];
    expected.sort();
    assert_eq!(keys(&shown(second.id).await.runs), expected);
    for (name, count) in [(None, 2), (Some("b"), 1)] {
        let workflow = name.map(str::to_owned);
        let which = RunFilter { event: Some(second.id), workflow, ..RunFilter::default() };
        assert_eq!(world.list(&which, None, 9).await.runs.len(), count);
        assert_eq!(world.in_workspace("other").list(&which, None, 9).await.runs, []);
    }
}

/// spec stats: runs can be filtered by a part of the workflow's name, by key and by time.
pub async fn runs_are_listed_by_name_key_and_time(world: &World) {
    let concurrency = json!({ "limit": 1, "key": "k" });
    world.define(json!({ "name": "sync.account", "concurrency": concurrency })).await;
    world.define(json!({ "name": "mail" })).await;
    let began = world.now();
    let x = world.send_for_run("sync.account", json!({ "k": "x" })).await;
    world.tick(1000).await;
    let y = world.send_for_run("sync.account", json!({ "k": "y" })).await;
    world.tick(1000).await;
    let mail = world.send_for_run("mail", json!(null)).await;
    let text = |text: &str| Some(text.to_owned());
    let all = RunFilter::default();
    for (which, expected) in [
        (RunFilter { text: text("account"), ..all.clone() }, vec![y, x]),
        (RunFilter { text: text("z"), ..all.clone() }, vec![]),
        (RunFilter { key: text("y"), ..all.clone() }, vec![y]),
        (RunFilter { from: Some(began.plus_ms(1000)), ..all.clone() }, vec![mail, y]),
        (RunFilter { to: Some(began.plus_ms(1000)), ..all.clone() }, vec![x]),
        (RunFilter { from: Some(began.plus_ms(1)), to: Some(began.plus_ms(1001)), ..all }, vec![y]),
    ] {
        let page = world.list(&which, None, 3).await;
        let found: Vec<_> = page.runs.iter().filter_map(Row::as_run).map(|run| run.id).collect();
        assert_eq!(found, expected, "{which:?}");
        assert_eq!(page.next, None, "{which:?}");
    }
}

/// spec stats: gates with the longest queues are listed first, without counting every queue.
pub async fn the_longest_lines_come_first(world: &World) {
    world.define(json!({ "name": "w", "concurrency": { "limit": 1, "key": "k" } })).await;
    for (key, runs) in [("few", 2), ("many", 6), ("none", 1), ("some", 4)] {
        for _ in 0..runs {
            world.send("w", json!({ "k": key })).await;
        }
    }
    let busiest = async |known: &[GateKey], most| {
        let found = seen(world, |draft| gates::busiest(draft, &world.ws, known, most)).await;
        let answer = |(key, shown): (GateKey, gates::GateView)| {
            (key, format!("{} {}", shown.key, shown.line.unwrap().count))
        };
        found.into_iter().map(answer).unzip::<_, _, Vec<_>, Vec<_>>()
    };
    let (keys, answer) = busiest(&[], 2).await;
    assert_eq!(answer, ["many 5", "some 3"]);
    assert_eq!(busiest(&keys, 10).await.1, ["many 5", "some 3", "few 1"]);
}
