//! A clock that steps back: an action with a due time is late by at most its own period.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command},
    event::NewEvent,
    row::{BulkFilter, BulkWhat, Run},
    run::record::{NewWait, NewWaitOn, Recorded, Then, Until},
};

use crate::world::{World, event};

/// The tested clock steps: shorter than the periods below, longer, and much longer.
const STEPS_MS: [u64; 3] = [400, 40_000, 3_600_000];

/// The period of every control below.
const PERIOD_MS: u64 = 10_000;

/// Sets the clock back, and sweeps, so that due times that are too far ahead are capped.
async fn step_back(world: &World, ms: u64) {
    world.clock.set(world.now().minus_ms(ms));
    world.sweep().await;
}

/// Sets the clock back while an action is deferred. The action must not happen at once, and must
/// have happened a period later.
async fn is_put_off_by_a_period(world: &World, name: &str, step_ms: u64) {
    step_back(world, step_ms).await;
    // More sweeps than one: a faulty sweep would defer the action again, or run it early.
    for _ in 0..4 {
        assert!(
            world.lease_all().await.is_empty(),
            "`{name}` ran early after the clock stepped back by {step_ms} ms"
        );
        world.tick(PERIOD_MS / 4).await;
    }
    let runs = world.lease_all().await;
    assert_eq!(
        runs.len(),
        1,
        "`{name}` did not run {PERIOD_MS} ms after the clock stepped back by {step_ms} ms"
    );
    world.complete(&runs[0]).await;
}

/// spec I14, M1: a throttled key is blocked for at most one period, and keeps its spacing.
pub async fn a_throttled_key_waits_for_one_period_at_most(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": PERIOD_MS, "burst": 1 });
    world.define(json!({ "name": "call", "throttle": throttle })).await;
    for _ in 0..=STEPS_MS.len() {
        world.send("call", json!({})).await;
    }
    assert_eq!(world.drain().await.len(), 1);
    for step_ms in STEPS_MS {
        is_put_off_by_a_period(world, "call", step_ms).await;
    }
    // A new run in the queue does not shorten the wait, and the limit holds without a sweep, too.
    world.send("call", json!({})).await;
    world.clock.set(world.now().minus_ms(40_000));
    world.send("call", json!({})).await;
    assert!(world.lease_all().await.is_empty(), "the spacing holds");
    world.tick(PERIOD_MS).await;
    assert_eq!(world.drain().await.len(), 1);
    world.check_holds().await;
}

/// spec F1, F2: a window fires at most one period after its last event, a buffer at most one
/// timeout after its first event.
pub async fn a_window_and_a_buffer_are_open_for_one_period_at_most(world: &World) {
    for (name, control) in [
        ("save", json!({ "debounce": { "periodMs": PERIOD_MS } })),
        ("edit", json!({ "debounce": { "periodMs": PERIOD_MS, "maxWaitMs": PERIOD_MS } })),
        ("index", json!({ "batch": { "maxSize": 100, "timeoutMs": PERIOD_MS } })),
    ] {
        let mut definition = control;
        definition["name"] = Value::from(name);
        world.define(definition).await;
        for step_ms in STEPS_MS {
            world.send(name, json!({ "n": 1 })).await;
            // Half of the time is over when the clock is set back.
            world.tick(PERIOD_MS / 2).await;
            world.clock.set(world.now().minus_ms(PERIOD_MS / 2));
            is_put_off_by_a_period(world, name, step_ms).await;
        }
    }
}

/// spec C1: a claim is held for at most its period.
pub async fn a_claim_is_held_for_one_period_at_most(world: &World) {
    let once = json!({ "key": "id", "periodMs": PERIOD_MS });
    world.define(json!({ "name": "pay", "idempotency": once })).await;
    world.define(json!({ "name": "mail" })).await;
    for step_ms in STEPS_MS {
        let data = json!({ "id": step_ms });
        world.send("pay", data.clone()).await;
        let id = format!("mail-{step_ms}");
        let dedupe = || NewEvent { dedupe_id: Some(id.clone()), ..event("mail", &json!({})) };
        world.post_all(vec![dedupe()]).await;
        step_back(world, step_ms).await;
        world.tick(PERIOD_MS - 1).await;
        assert_eq!(world.send("pay", data.clone()).await.outcome(), "deduped");
        world.tick(1).await;
        assert_eq!(
            world.send("pay", data).await.outcome(),
            "started",
            "claim not expired, clock {step_ms} ms back"
        );
        world.tick(24 * 60 * 60 * 1000 - PERIOD_MS).await;
        let posted = world.post_all(vec![dedupe()]).await;
        assert_eq!(
            posted[0].runs.len(),
            1,
            "`dedupeId` must expire after a day, clock {step_ms} ms back"
        );
    }
}

/// spec clock: a wait for a duration ends at most that duration later; a wait until a given time
/// ends at that time.
pub async fn a_wait_lasts_as_long_as_it_was_given_at_most(world: &World) {
    world.define(json!({ "name": "job" })).await;
    for step_ms in STEPS_MS {
        for on in [
            NewWaitOn::Time,
            NewWaitOn::Retry { attempt: 1 },
            NewWaitOn::Signal { name: "go".to_owned() },
            crate::worker::event_wait("paid", Vec::new()),
        ] {
            world.send("job", json!({})).await;
            let run = world.lease_one().await;
            suspend(world, &run, on, Until::In(PERIOD_MS)).await;
            is_put_off_by_a_period(world, "job", step_ms).await;
        }
    }
    world.send("job", json!({})).await;
    let (run, named) = (world.lease_one().await, world.now().plus_ms(PERIOD_MS));
    suspend(world, &run, NewWaitOn::Time, named.into()).await;
    step_back(world, 40_000).await;
    world.tick(PERIOD_MS).await;
    assert!(
        world.lease_all().await.is_empty(),
        "the run woke before the time that its author named"
    );
    world.tick(40_000).await;
    assert_eq!(world.lease_one().await.id, run.id);
}

async fn suspend(world: &World, run: &Run, on: NewWaitOn, until: Until) {
    let wait = NewWait { step: "wait".to_owned(), on, until: Some(until) };
    let let_go = world.report(run, Vec::new(), Then::Suspend(vec![wait])).await;
    assert_eq!(let_go, Ok(Recorded::LetGo));
}

/// A run times out at most its timeout after its start, also if the clock steps back.
pub async fn a_time_out_comes_after_its_time_at_most(world: &World) {
    world.define(json!({ "name": "job", "timeoutMs": PERIOD_MS })).await;
    for step_ms in STEPS_MS {
        world.send("job", json!({})).await;
        let run = world.lease_one().await;
        suspend(world, &run, NewWaitOn::Signal { name: "go".to_owned() }, Until::In(3_600_000))
            .await;
        step_back(world, step_ms).await;
        world.tick(PERIOD_MS - 1).await;
        assert_eq!(world.state(run.id).await, "waiting");
        world.tick(1).await;
        assert_eq!(world.state(run.id).await, "failed", "{step_ms} ms back");
    }
}

/// Work that one transaction left to the sweep continues at once, also if the clock steps back.
pub async fn work_that_is_left_does_not_wait(world: &World) {
    world.define(json!({ "name": "job" })).await;
    let run = world.send_for_run("job", json!({})).await;
    let what = BulkWhat::Cancel { reason: "by hand".to_owned() };
    let filter = BulkFilter::default();
    let bulk = world.run(Command::Bulk { ws: world.ws.clone(), what, filter }).await;
    assert!(matches!(bulk, Ok(Answer::Left(_))), "{bulk:?}");
    step_back(world, 40_000).await;
    assert_eq!(world.state(run).await, "cancelled");
}
