//! Debounce with `keep` and `edge`: which events of a burst the run gets, and when it starts.

use serde_json::{Value, json};
use tidegate_core::{flow::Verdict, id::RunId};
use tidegate_store::why;

use crate::world::{World, skipped, window};

/// Defines `save` with these settings of `debounce` and a period of a second.
async fn define(world: &World, debounce: Value) {
    world.define(json!({ "name": "save", "debounce": settings(debounce) })).await;
}

fn settings(mut debounce: Value) -> Value {
    debounce["periodMs"] = json!(1000);
    debounce
}

/// Sends numbered events, 100 ms apart; returns their runs.
async fn burst(world: &World, numbers: std::ops::Range<u32>) -> Vec<RunId> {
    let mut runs = Vec::new();
    for n in numbers {
        runs.push(world.send_for_run("save", json!({ "n": n })).await);
        world.tick(100).await;
    }
    runs
}

/// Returns the numbers of a run's events.
async fn numbers(world: &World, run: RunId) -> Vec<u64> {
    let inputs = world.inputs_of(run).await.expect("a run with all events");
    inputs.iter().filter_map(|data| data["n"].as_u64()).collect()
}

/// spec L22: with `keep: first` each event moves the deadline, and the run gets the first one.
pub async fn keep_first_gives_the_first_event(world: &World) {
    define(world, json!({ "keep": "first", "maxWaitMs": 5000 })).await;
    let runs = burst(world, 0..4).await;
    assert!(runs.iter().all(|run| *run == runs[0]));
    world.tick(899).await;
    assert_eq!(world.state(runs[0]).await, "none", "the last event did not move the deadline");
    world.tick(1).await;
    assert_eq!(world.drain().await, [runs[0]]);
    assert_eq!(world.input_of(runs[0]).await, json!({ "n": 0 }));
    let next = world.send_for_run("save", json!({ "n": 9 })).await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [next]);
    assert_eq!(world.input_of(next).await, json!({ "n": 9 }), "the next window keeps its own");
}

/// spec L22, A1: the run claims the idempotency key of the event that the window keeps.
pub async fn the_kept_event_decides_the_claim(world: &World) {
    let claim = json!({ "key": "n", "periodMs": 60_000 });
    let debounce = settings(json!({ "keep": "first" }));
    world.define(json!({ "name": "save", "debounce": debounce, "idempotency": claim })).await;
    burst(world, 0..2).await;
    world.tick(1000).await;
    world.drain().await;
    assert_eq!(world.send("save", json!({ "n": 0 })).await.outcome(), "deduped");
    assert_eq!(world.send("save", json!({ "n": 1 })).await.outcome(), "coalesced");
}

/// spec L22: with `keep: all` the run gets every event of the burst, in order.
pub async fn keep_all_gives_every_event_to_one_run(world: &World) {
    define(world, json!({ "keep": "all" })).await;
    let runs = burst(world, 0..4).await;
    assert!(runs.iter().all(|run| *run == runs[0]));
    let why = why(&*world.store, &world.ws, runs[0]).await.unwrap().unwrap();
    assert!(
        why.sentence.contains("debounce of the whole workflow holds 4 events"),
        "{}",
        why.sentence
    );
    world.tick(899).await;
    assert_eq!(world.state(runs[0]).await, "none", "the window fired before the quiet period");
    world.tick(1).await;
    assert_eq!(world.drain().await, [runs[0]]);
    assert_eq!(numbers(world, runs[0]).await, [0, 1, 2, 3]);
    assert_eq!(world.input_of(runs[0]).await, json!({ "n": 0 }), "`ctx.event` is the first");
    world.check_holds().await;
}

/// spec L22: a window that keeps all events fires at `maxSize`, and at its longest wait.
pub async fn keep_all_fires_when_it_is_full(world: &World) {
    define(world, json!({ "keep": "all", "maxSize": 3, "maxWaitMs": 1000 })).await;
    let runs = burst(world, 0..5).await;
    assert_eq!(runs[0], runs[2]);
    assert_ne!(runs[2], runs[3], "the fourth event joined a full window");
    assert_eq!(world.drain().await, [runs[0]], "the window did not fire at its size");
    assert_eq!(numbers(world, runs[0]).await, [0, 1, 2]);
    world.tick(799).await;
    assert!(world.drain().await.is_empty());
    world.tick(1).await;
    assert_eq!(world.drain().await, [runs[3]], "a second after its first event");
    assert_eq!(numbers(world, runs[3]).await, [3, 4]);
}

/// spec L22, F2: a window that keeps all events fires before its data exceeds 4 MiB.
pub async fn keep_all_fires_before_4_mib(world: &World) {
    define(world, json!({ "keep": "all" })).await;
    let half = "x".repeat(2 * 1024 * 1024);
    let first = world.send_for_run("save", json!({ "n": 0, "text": half })).await;
    let second = world.send_for_run("save", json!({ "n": 1, "text": half })).await;
    assert_ne!(first, second);
    assert_eq!(world.drain().await, [first]);
    world.tick(1000).await;
    assert_eq!(world.drain().await, [second]);
}

/// spec L22, C1: each event takes its claim when it joins; a cancelled window gives all back.
pub async fn keep_all_takes_claims_as_a_batch_does(world: &World) {
    let claim = json!({ "key": "n", "periodMs": 60_000 });
    let debounce = settings(json!({ "keep": "all" }));
    world.define(json!({ "name": "save", "debounce": debounce, "idempotency": claim })).await;
    let runs = burst(world, 0..2).await;
    assert_eq!(world.send("save", json!({ "n": 0 })).await.outcome(), "deduped");
    assert!(world.cancel(runs[0]).await.is_ok());
    let again = world.send_for_run("save", json!({ "n": 0 })).await;
    assert_ne!(again, runs[0], "the cancelled window kept the claim");
    world.tick(1000).await;
    assert_eq!(world.drain().await, [again]);
    assert_eq!(world.send("save", json!({ "n": 0 })).await.outcome(), "deduped");
}

/// spec L22, F4: a window that keeps all events and would be skipped stays open, in parts of
/// `maxSize`; one part flushes per end of a holder.
pub async fn keep_all_loses_nothing_behind_a_holder(world: &World) {
    let debounce = settings(json!({ "keep": "all", "maxSize": 2 }));
    world
        .define(json!({ "name": "save", "debounce": debounce, "singleton": { "mode": "skip" } }))
        .await;
    burst(world, 0..2).await;
    let holder = world.lease_one().await;
    let runs = burst(world, 2..7).await;
    world.tick(5000).await;
    assert_eq!(world.alive("save").await, 1);
    let why = why(&*world.store, &world.ws, runs[0]).await.unwrap();
    assert!(why.is_ok(), "the run of an earlier part is not found");
    world.complete(&holder).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        world.sweep().await;
        let run = world.lease_one().await;
        seen.push(numbers(world, run.id).await);
        world.complete(&run).await;
    }
    assert_eq!(seen, [vec![2, 3], vec![4, 5], vec![6]]);
    world.check_holds().await;
}

/// spec L22, L8: a window costs what its kept event costs; with `all` its events cost their sum.
pub async fn a_window_costs_what_it_keeps(world: &World) {
    let limit = json!({ "limit": 5, "cost": "n" });
    let debounce = settings(json!({ "keep": "all" }));
    world.define(json!({ "name": "save", "debounce": debounce, "concurrency": limit })).await;
    let runs = burst(world, 2..4).await;
    assert_eq!(runs[0], runs[1]);
    let third = world.send_for_run("save", json!({ "n": 1 })).await;
    assert_ne!(third, runs[0], "2 + 3 + 1 exceeds the limit of 5");
    let leased = world.lease_one().await;
    assert_eq!(leased.plan[0].costs.one(), 5);
    let first = settings(json!({ "keep": "first" }));
    let other = json!({ "name": "first", "debounce": first, "concurrency": limit });
    world.define(other).await;
    for n in [2, 3] {
        world.send("first", json!({ "n": n })).await;
    }
    world.tick(1000).await;
    let runs = world.lease_all().await;
    let run = runs.iter().find(|run| run.workflow == "first").expect("the run of the window");
    assert_eq!(run.plan[0].costs.one(), 2);
}

/// spec L22: with `edge: leading` the first event starts a run at once. The rest of the window
/// makes no run, and each event of it extends the window.
pub async fn leading_starts_at_once_and_makes_no_other_run(world: &World) {
    define(world, json!({ "edge": "leading" })).await;
    assert_eq!(world.send("save", json!({ "n": 0 })).await.outcome(), "started");
    let [run] = world.drain().await[..] else { panic!("one run") };
    for n in 1..4 {
        world.tick(999).await;
        let joined = window(&world.send("save", json!({ "n": n })).await);
        assert_eq!(joined, (run, world.now().plus_ms(1000)), "it names the run of the window");
    }
    world.tick(999).await;
    assert!(world.drain().await.is_empty());
    world.tick(1).await;
    assert!(world.drain().await.is_empty(), "the end of the window made a run");
    let next = world.send("save", json!({ "n": 9 })).await;
    assert_eq!(next.outcome(), "started", "the window was not over");
    assert_ne!(next.run(), Some(run));
    assert_eq!(world.input_of(run).await, json!({ "n": 0 }));
}

/// spec L22: a window with `edge: leading` ends at its longest wait, also if no sweep comes.
pub async fn a_leading_window_ends_at_its_longest_wait(world: &World) {
    define(world, json!({ "edge": "leading", "maxWaitMs": 1500 })).await;
    let first = world.send_for_run("save", json!({ "n": 0 })).await;
    world.pass(900);
    assert_eq!(world.send_for_run("save", json!({ "n": 1 })).await, first);
    world.pass(600);
    let next = world.send("save", json!({ "n": 2 })).await;
    assert_eq!(next.outcome(), "started");
    assert_ne!(next.run(), Some(first));
}

/// spec L22: with `edge: both` there is one more run at the end, with an id of its own, if more
/// events have come.
pub async fn both_makes_one_more_run_at_the_end(world: &World) {
    define(world, json!({ "edge": "both" })).await;
    let first = world.send_for_run("save", json!({ "n": 0 })).await;
    assert_eq!(world.drain().await, [first]);
    world.tick(1000).await;
    assert!(world.drain().await.is_empty(), "nothing came after the first event");
    let runs = burst(world, 1..4).await;
    assert_ne!(runs[0], first);
    assert_ne!(runs[1], runs[0], "the second run has no id of its own");
    assert_eq!(runs[1], runs[2]);
    assert_eq!(world.drain().await, [runs[0]]);
    world.tick(899).await;
    assert!(world.drain().await.is_empty());
    world.tick(1).await;
    assert_eq!(world.drain().await, [runs[1]]);
    assert_eq!(world.input_of(runs[1]).await, json!({ "n": 3 }));
    assert_eq!(world.send("save", json!({ "n": 9 })).await.outcome(), "started");
}

/// spec L22: `both` with `keep` gives the second run the first or all events after the first one.
pub async fn both_keeps_events_after_the_first(world: &World) {
    define(world, json!({ "edge": "both", "keep": "all" })).await;
    let runs = burst(world, 0..4).await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [runs[0], runs[1]]);
    assert_eq!(world.inputs_of(runs[0]).await, None, "the first run has one event");
    assert_eq!(numbers(world, runs[1]).await, [1, 2, 3]);
    let first = settings(json!({ "edge": "both", "keep": "first" }));
    world.define(json!({ "name": "first", "debounce": first })).await;
    let mut last = None;
    for n in 0..3 {
        last = world.send("first", json!({ "n": n })).await.run();
    }
    world.tick(1000).await;
    assert_eq!(world.drain().await.last().copied(), last);
    assert_eq!(world.input_of(last.expect("a run")).await, json!({ "n": 1 }));
}

/// spec L22, A2: an event that is refused opens no window with `edge: leading`, and spends nothing.
pub async fn a_refused_first_event_opens_no_window(world: &World) {
    let debounce = settings(json!({ "edge": "leading" }));
    world
        .define(json!({
            "name": "save", "debounce": debounce, "singleton": { "mode": "skip", "key": "k" },
            "rateLimit": { "limit": 2, "perMs": 60_000 },
        }))
        .await;
    world.send("save", json!({ "k": 1 })).await;
    let holder = world.lease_one().await;
    world.tick(1000).await;
    let (run, control) = skipped(&world.send("save", json!({ "k": 1 })).await);
    assert_eq!((run, control), (holder.id, "singleton"));
    let other = world.send("save", json!({ "k": 2 })).await;
    assert_eq!(other.outcome(), "started", "the skipped event opened a window or spent a token");
    assert_eq!(world.send("save", json!({ "k": 3 })).await.outcome(), "coalesced");
    world.tick(1000).await;
    assert_eq!(world.send("save", json!({ "k": 4 })).await.outcome(), "dropped", "one per window");
}

/// spec L22, F4: beside `batch`, the event that opens a window and the one that it fires go into
/// the buffer.
pub async fn both_edges_fire_into_a_buffer(world: &World) {
    let batch = json!({ "maxSize": 10, "timeoutMs": 5000 });
    let debounce = settings(json!({ "edge": "both" }));
    world.define(json!({ "name": "save", "debounce": debounce, "batch": batch })).await;
    let first = world.send("save", json!({ "n": 0 })).await;
    let Verdict::Buffered { run, .. } = first else { panic!("{first:?}") };
    let runs = burst(world, 1..3).await;
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], run);
    world.tick(1000).await;
    world.tick(4000).await;
    assert_eq!(world.drain().await, [run]);
    assert_eq!(numbers(world, run).await, [0, 2]);
    assert_eq!(world.state(runs[0]).await, "cancelled", "another run has its event");
}

/// spec L22, F3: windows of all kinds survive a restart of all engines.
pub async fn windows_of_every_kind_survive_a_restart(world: &World) {
    for (n, edge) in ["trailing", "both"].iter().enumerate() {
        let name = format!("w{n}");
        let debounce = settings(json!({ "edge": edge, "keep": "all", "key": "k" }));
        world.define(json!({ "name": name, "debounce": debounce })).await;
        for n in 0..3 {
            world.send(&name, json!({ "n": n, "k": "a" })).await;
        }
    }
    let world = world.engine(world.engine + 1);
    world.tick(1000).await;
    let runs = world.drain().await;
    assert_eq!(runs.len(), 3);
    let mut seen = Vec::new();
    for run in runs {
        if world.inputs_of(run).await.is_some() {
            seen.push(numbers(&world, run).await);
        }
    }
    seen.sort();
    assert_eq!(seen, [vec![0, 1, 2], vec![1, 2]]);
}

/// spec L22: a release that changes `keep` or `edge` leaves an open window its promised run. Later
/// events follow the new settings.
pub async fn a_release_changes_keep_and_edge(world: &World) {
    let save = |version: u32, debounce: Value| json!({ "name": "save", "version": version, "debounce": settings(debounce) });
    world.define(save(1, json!({ "keep": "all" }))).await;
    let gathered = burst(world, 0..2).await;
    world.define(save(2, json!({}))).await;
    let last = burst(world, 2..4).await;
    assert_ne!(last[0], gathered[0]);
    world.define(save(3, json!({ "edge": "leading" }))).await;
    assert_eq!(burst(world, 4..5).await, [last[0]], "an open window keeps its promise");
    world.tick(1000).await;
    let mut runs = world.drain().await;
    runs.sort_by_key(|run| run.seq);
    assert_eq!(runs, [gathered[0], last[0]]);
    assert_eq!(numbers(world, gathered[0]).await, [0, 1]);
    assert_eq!(world.input_of(last[0]).await, json!({ "n": 4 }));
    let led = burst(world, 5..6).await;
    world.define(save(4, json!({ "edge": "both" }))).await;
    let trailing = burst(world, 6..7).await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [led[0], trailing[0]]);
    world.check_holds().await;
}

/// spec L22: an action gathers the requests of a session into one turn.
pub async fn a_chat_burst_is_one_turn_with_all_messages(world: &World) {
    let debounce = settings(json!({ "keep": "all", "key": "session" }));
    let actions = json!({ "say": { "concurrency": "queue", "debounce": debounce } });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let mut turns = Vec::new();
    for text in ["hi", "are you there?", "hello?"] {
        turns.push(world.call("chat", "say", "s1", json!({ "text": text })).await.run());
    }
    let other = world.call("chat", "say", "s2", json!({ "text": "me too" })).await.run();
    assert_eq!(turns[0], turns[2]);
    assert_ne!(turns[0], other);
    world.tick(1000).await;
    let turn = turns[0].expect("a run");
    let texts: Vec<Value> = world
        .inputs_of(turn)
        .await
        .expect("all messages")
        .iter()
        .map(|data| data["input"]["text"].clone())
        .collect();
    assert_eq!(texts, ["hi", "are you there?", "hello?"]);
    assert_eq!(world.lease_all().await.len(), 2);
}

/// spec F1, L22: an event that comes after the deadline flushes the window, also if the run of the
/// window then refuses it.
pub async fn a_window_that_is_over_is_flushed_by_an_event_that_its_run_refuses(world: &World) {
    let debounce = settings(json!({ "edge": "both" }));
    world
        .define(json!({ "name": "save", "debounce": debounce, "singleton": { "mode": "skip" } }))
        .await;
    let first = world.send_for_run("save", json!({ "n": 0 })).await;
    let second = world.send_for_run("save", json!({ "n": 1 })).await;
    assert_eq!(world.drain().await, [first]);
    world.pass(1000);
    let (holder, control) = skipped(&world.send("save", json!({ "n": 2 })).await);
    assert_eq!((holder, control), (second, "singleton"));
    assert_eq!(world.state(second).await, "queued", "the run that has refused does not exist");
    assert_eq!(world.drain().await, [second]);
    assert_eq!(world.input_of(second).await, json!({ "n": 1 }));
}

/// spec A2, L8: an event that is refused before it reaches a window does not flush it, also if the
/// window had no room for it.
pub async fn a_refused_event_does_not_flush_a_window(world: &World) {
    let debounce = settings(json!({ "edge": "both", "keep": "all" }));
    let (claim, limit) = (json!({ "key": "n" }), json!({ "limit": 2, "cost": "c" }));
    let save = json!({
        "name": "save", "debounce": debounce, "idempotency": claim, "concurrency": limit,
    });
    world.define(save).await;
    let first = world.send_for_run("save", json!({ "n": 0, "c": 2 })).await;
    let second = world.send_for_run("save", json!({ "n": 1, "c": 2 })).await;
    assert_ne!(first, second);
    for (data, outcome) in [
        (json!({ "n": 2, "c": "2" }), "rejected"),
        (json!({ "n": 3, "c": 3 }), "rejected"),
        (json!({ "n": 1, "c": 2 }), "deduped"),
    ] {
        assert_eq!(world.send("save", data.clone()).await.outcome(), outcome, "{data}");
        assert_eq!(world.state(second).await, "none", "{data} flushed the window");
    }
    let third = world.send_for_run("save", json!({ "n": 4, "c": 1 })).await;
    assert_eq!(world.state(second).await, "queued");
    assert_eq!(world.drain().await, [first, second, third]);
    world.check_holds().await;
}

/// spec A2, L22: a window without room for an event is flushed before it, also if the run of the
/// window then refuses the event.
pub async fn a_full_window_is_flushed_by_an_event_that_its_run_refuses(world: &World) {
    let debounce = settings(json!({ "edge": "both", "keep": "all" }));
    let (single, limit) = (json!({ "mode": "skip" }), json!({ "limit": 2, "cost": "c" }));
    let save = json!({
        "name": "save", "debounce": debounce, "singleton": single, "concurrency": limit,
    });
    world.define(save).await;
    let first = world.send_for_run("save", json!({ "n": 0 })).await;
    assert_eq!(world.drain().await, [first]);
    let second = world.send_for_run("save", json!({ "n": 1, "c": 2 })).await;
    let (holder, control) = skipped(&world.send("save", json!({ "n": 2 })).await);
    assert_eq!((holder, control), (second, "singleton"));
    assert_eq!(world.state(second).await, "queued", "the run that has refused does not exist");
    assert_eq!(world.drain().await, [second]);
    assert_eq!(numbers(world, second).await, [1]);
}
