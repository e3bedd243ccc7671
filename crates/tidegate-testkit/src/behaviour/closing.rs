//! Runs that close gates because a service has refused a call (spec L27).

use serde_json::json;
use tidegate_core::{
    flow::{
        Verdict,
        close::{GateToClose, MAX_CLOSE_MS, NewClose},
    },
    id::RunId,
    observe::gates::{self, GateFilter, GateView},
    overrides::OverrideChange,
    row::{GateState, Row, Run},
    run::record::{NewWait, NewWaitOn, Recorded, Then, Until},
};
use tidegate_store::{look, why};

use super::overrides::{change, pause, remove, target};
use crate::world::World;

/// Declares the pool `api` with a limit on runs, and two workflows that use it.
async fn shared(world: &World, limit: u32) {
    let concurrency = json!({ "limit": limit, "key": "k" });
    world.put_pool(json!({ "name": "api", "concurrency": concurrency })).await;
    for name in ["chat", "index"] {
        world.define(json!({ "name": name, "concurrency": [{ "pool": "api" }] })).await;
    }
}

fn for_ms(gate: impl Into<GateToClose>, ms: u64) -> NewClose {
    NewClose { gate: gate.into(), until: Until::In(ms), max_ms: MAX_CLOSE_MS }
}

/// Closes a gate; the run goes on.
async fn close(world: &World, run: &Run, gate: impl Into<GateToClose>, ms: u64) {
    world.close_gate(run, for_ms(gate, ms)).await;
}

/// Closes a gate; the run tries again when it opens.
async fn close_and_wait(world: &World, run: &Run, gate: impl Into<GateToClose>, ms: u64) {
    let (step, on) = ("call".to_owned(), NewWaitOn::Deferred { attempt: u32::MAX });
    let wait = NewWait { step, on, until: Some(Until::In(ms)) };
    let recorded = world.try_close_gate(run, for_ms(gate, ms), Then::Suspend(vec![wait])).await;
    assert_eq!(recorded, Ok(Recorded::LetGo));
}

async fn sent(world: &World, name: &str, k: &str) -> RunId {
    world.send_for_run(name, json!({ "k": k })).await
}

async fn ready(world: &World) -> Vec<RunId> {
    world.lease_all().await.iter().map(|run| run.id).collect()
}

async fn gate(world: &World, control: &str) -> Option<GateView> {
    let which = GateFilter { control: Some(control.to_owned()), ..GateFilter::default() };
    let page =
        look(&*world.store, &world.ws, |draft| gates::list(draft, &world.ws, &which, None, 10));
    page.await.expect("a query").gates.into_iter().next()
}

/// spec L27: no run enters a closed pool, first starts and wakes alike; what is inside goes on, and
/// at its end the pool opens by itself.
pub async fn a_closed_pool_lets_nobody_in_until_its_time(world: &World) {
    shared(world, 3).await;
    let first = world.drive("chat", json!({ "k": "a" })).await;
    let second = world.drive("index", json!({ "k": "a" })).await;
    let asleep = world.drive("chat", json!({ "k": "a" })).await;
    close_and_wait(world, &first, "api", 5000).await;
    let third = sent(world, "index", "a").await;
    assert_eq!(ready(world).await, []);
    world.sleep(&asleep, "nap", 1000).await;
    world.tick(4999).await;
    assert_eq!(ready(world).await, [], "a wake is an entry, too");
    world.complete(&second).await;
    world.check_holds().await;
    world.tick(1).await;
    assert_eq!(ready(world).await, [first.id, asleep.id, third]);
    world.check_holds().await;
}

/// spec L27, G5: a run closes the pool for its own key.
pub async fn a_closed_key_delays_no_other_key(world: &World) {
    shared(world, 1).await;
    let first = world.drive("chat", json!({ "k": "a" })).await;
    close_and_wait(world, &first, "api", 5000).await;
    let other = sent(world, "index", "b").await;
    let same = sent(world, "index", "a").await;
    assert_eq!(world.drain().await, [other]);
    world.tick(5000).await;
    // The gate and the retry are due at the same time: either is served first.
    let mut done = world.drain().await;
    done.sort();
    assert_eq!(done, [first.id, same]);
}

/// spec L27: a closed throttle stops first starts; what has started wakes.
pub async fn a_throttle_that_a_run_closes_stops_first_starts(world: &World) {
    let throttle = json!({ "limit": 10, "perMs": 1000, "burst": 10 });
    world.define(json!({ "name": "ask", "throttle": throttle })).await;
    let first = world.drive("ask", json!({})).await;
    let second = world.drive("ask", json!({})).await;
    close_and_wait(world, &first, GateToClose::Throttle, 5000).await;
    world.sleep(&second, "nap", 1000).await;
    let opens = world.now().plus_ms(5000);
    let third = match world.send("ask", json!({})).await {
        Verdict::Queued { run, start_at, .. } => {
            assert_eq!(start_at, Some(opens), "the answer has the time of the opening");
            run
        }
        other => panic!("{other:?}"),
    };
    world.tick(1000).await;
    assert_eq!(ready(world).await, [second.id]);
    world.tick(4000).await;
    assert_eq!(ready(world).await, [first.id, third]);
}

/// spec L27: of several limits of the workflow, a run closes those with a key.
pub async fn a_run_closes_the_narrow_limit_of_its_workflow(world: &World) {
    let limits = json!([{ "limit": 5 }, { "limit": 2, "key": "k", "span": "run" }]);
    world.define(json!({ "name": "ask", "concurrency": limits })).await;
    let first = world.drive("ask", json!({ "k": "a" })).await;
    close(world, &first, GateToClose::Concurrency, 5000).await;
    let same = sent(world, "ask", "a").await;
    let other = sent(world, "ask", "b").await;
    assert_eq!(world.lease_one().await.id, other);
    world.tick(5000).await;
    assert_eq!(world.lease_one().await.id, same);
    world.check_holds().await;
}

/// spec L27: the later of two ends wins, and no end is further ahead than the maximum.
pub async fn the_later_end_wins_within_the_maximum(world: &World) {
    shared(world, 5).await;
    let first = world.drive("chat", json!({ "k": "a" })).await;
    let second = world.drive("chat", json!({ "k": "a" })).await;
    close(world, &first, "api", 5000).await;
    close(world, &second, "api", 1000).await;
    let waiting = sent(world, "index", "a").await;
    world.tick(4999).await;
    assert_eq!(ready(world).await, [], "the shorter closing came later");
    close(world, &second, "api", 1000).await;
    world.tick(999).await;
    assert_eq!(ready(world).await, []);
    world.tick(1).await;
    assert_eq!(ready(world).await, [waiting]);
    let far = world.now().plus_ms(365 * 24 * 60 * 60 * 1000);
    let most = NewClose { gate: "api".into(), until: Until::At(far), max_ms: 60_000 };
    world.close_gate(&first, most).await;
    let waiting = sent(world, "index", "a").await;
    world.tick(59_999).await;
    assert_eq!(ready(world).await, []);
    world.tick(1).await;
    assert_eq!(ready(world).await, [waiting]);
}

/// spec L27: the attempt that has closed a gate is not counted as failed; a recorded step forgets
/// both counts.
pub async fn an_attempt_that_closes_a_gate_is_not_counted(world: &World) {
    shared(world, 1).await;
    let mut run = world.drive("chat", json!({ "k": "a" })).await;
    for n in 1..=3 {
        close_and_wait(world, &run, "api", 1000).await;
        let row = world.live(run.id).await.expect("it waits");
        assert_eq!((row.failures.get("call"), row.deferrals.get("call")), (None, Some(&n)));
        world.tick(1000).await;
        run = world.lease_one().await;
    }
    world.back_off(&run, "call", 1000).await;
    let row = world.live(run.id).await.expect("it waits");
    assert_eq!((row.failures.get("call"), row.deferrals.get("call")), (Some(&1), Some(&3)));
    let explained = why(&*world.store, &world.ws, run.id).await.unwrap().unwrap();
    let words = "failed attempts: 1, attempts that have closed a gate: 3,";
    assert!(explained.sentence.contains(words), "{}", explained.sentence);
    world.tick(1000).await;
    let run = world.lease_one().await;
    let done = vec![crate::world::step("call", &json!(1))];
    world.report(&run, done, Then::Continue).await.expect("the lease is valid");
    let row = world.live(run.id).await.expect("it is driven");
    assert!(row.failures.is_empty() && row.deferrals.is_empty(), "{row:?}");
}

/// spec L27: a worker that has lost its lease closes nothing.
pub async fn a_report_without_the_lease_closes_nothing(world: &World) {
    shared(world, 2).await;
    let lost = world.drive("chat", json!({ "k": "a" })).await;
    world.lose(lost.owner.unwrap()).await;
    let refused =
        world.try_close_gate(&lost, for_ms("api", 5000), Then::Continue).await.unwrap_err();
    assert_eq!(refused.code(), "fenced");
    let next = sent(world, "index", "a").await;
    assert_eq!(ready(&world.engine(2)).await, [lost.id, next]);
}

/// spec L27: `why` and the list of gates name the run that has closed a gate, and the end.
pub async fn why_names_the_run_that_closed_the_gate(world: &World) {
    shared(world, 2).await;
    let first = world.drive("chat", json!({ "k": "a" })).await;
    close(world, &first, "api", 5000).await;
    let (at, until) = (world.now(), world.now().plus_ms(5000));
    let waiting = sent(world, "index", "a").await;
    let explained = why(&*world.store, &world.ws, waiting).await.unwrap().unwrap();
    let (by, end) = (first.id, until.rfc3339());
    let words = format!(
        "it waits for concurrency of pool `api`, key a (2 at once, closed by {by} until {end}), \
         position 1 in the queue; freed by its opening at {end}"
    );
    assert!(explained.sentence.contains(&words), "{}", explained.sentence);
    assert_eq!(explained.earliest, Some(until));
    let shown = gate(world, "concurrency").await.expect("the gate");
    let closed = shown.closed.expect("it is closed");
    assert_eq!((closed.by, closed.until, closed.at), (by, until, at));
    world.tick(5000).await;
    assert_eq!(gate(world, "concurrency").await.expect("the gate").closed, None);
}

/// spec L27: a closed gate at which nobody waits keeps its row until it opens, and is deleted when
/// it has been idle.
pub async fn a_closed_gate_without_a_queue_keeps_its_row(world: &World) {
    shared(world, 1).await;
    let run = world.drive("chat", json!({ "k": "a" })).await;
    close(world, &run, "api", 600_000).await;
    world.complete(&run).await;
    world.tick(300_000).await;
    let late = sent(world, "index", "a").await;
    assert_eq!(ready(world).await, [], "the row of the gate was not deleted");
    world.cancel(late).await.expect("it waits");
    world.tick(300_000).await;
    let next = sent(world, "index", "a").await;
    assert_eq!(world.drain().await, [next]);
    world.tick(120_000).await;
    assert_eq!(gate(world, "concurrency").await, None, "an idle gate has no row");
}

/// spec L25, L27: a gate that a run has closed and whose pool is paused opens when both are over.
pub async fn a_pause_and_a_closing_are_both_waited_for(world: &World) {
    shared(world, 1).await;
    let run = world.drive("chat", json!({ "k": "a" })).await;
    close(world, &run, "api", 5000).await;
    world.complete(&run).await;
    let waiting = sent(world, "index", "a").await;
    pause(world, json!({ "pool": "api" })).await;
    world.tick(5000).await;
    assert_eq!(ready(world).await, [], "the pool is paused");
    remove(world, json!({ "pool": "api" })).await;
    let leased = world.lease_one().await;
    assert_eq!(leased.id, waiting);
    close(world, &leased, "api", 5000).await;
    world.complete(&leased).await;
    let waiting = sent(world, "index", "a").await;
    change(world, OverrideChange::Undo(target(json!({ "pool": "api" })))).await;
    remove(world, json!({ "pool": "api" })).await;
    assert_eq!(ready(world).await, [], "the gate is closed");
    world.tick(5000).await;
    assert_eq!(ready(world).await, [waiting]);
}

/// spec F4, L19, L27: a fold that a closed gate without a queue refuses is flushed when it opens.
pub async fn a_closed_gate_keeps_its_folds(world: &World) {
    let limit = json!({ "limit": 2, "span": "run", "queue": { "maxWaiting": 0 } });
    let window = json!({ "periodMs": 100 });
    world.define(json!({ "name": "ask", "concurrency": limit, "debounce": window })).await;
    world.send("ask", json!({})).await;
    world.tick(100).await;
    let run = world.lease_one().await;
    close(world, &run, GateToClose::Concurrency, 5000).await;
    world.send("ask", json!({})).await;
    world.tick(4000).await;
    assert_eq!(ready(world).await, []);
    world.complete(&run).await;
    world.tick(999).await;
    assert_eq!(ready(world).await, [], "the end of the holder does not open the gate");
    world.tick(1).await;
    assert_eq!(world.lease_all().await.len(), 1);
}

/// spec L27: only gates of the run's plan are closed, and a gate that is not in it changes nothing.
pub async fn a_run_closes_only_gates_of_its_plan(world: &World) {
    shared(world, 1).await;
    world.define(json!({ "name": "plain" })).await;
    let plain = world.drive("plain", json!({ "k": "a" })).await;
    close(world, &plain, "api", 5000).await;
    let run = world.drive("chat", json!({ "k": "a" })).await;
    world.complete(&run).await;
    let closed = world.dump().await.into_iter().any(|row| match row {
        Row::Gate(gate) => match gate.state {
            GateState::Slots(slots) => slots.closed.is_some(),
            GateState::Turns(turns) => turns.closed.is_some(),
            _ => false,
        },
        _ => false,
    });
    assert!(!closed);
}
