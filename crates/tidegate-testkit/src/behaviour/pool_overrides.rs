//! Overrides of pools, pauses of pools, and gates that are closed until a time (spec L24, L25).

use serde_json::{Value, json};
use tidegate_core::{
    flow::Verdict,
    id::RunId,
    observe::overrides::drained,
    overrides::OverrideChange,
    pool::PoolRefusal,
    row::{Class, Run},
    time::Timestamp,
};
use tidegate_store::{look, why};

use super::overrides::{
    ask, change, in_force, leased, operations, pause, remove, set, target, until,
};
use crate::world::World;

/// Declares the pool `api` with this part, and two workflows that use it.
async fn shared(world: &World, part: &str, limits: Value) {
    let mut pool = json!({ "name": "api" });
    pool[part] = limits;
    world.put_pool(pool).await;
    for name in ["chat", "index"] {
        let mut definition = json!({ "name": name });
        definition[part] = json!([{ "pool": "api" }]);
        world.define(definition).await;
    }
}

fn pool(more: Value) -> Value {
    let mut of = json!({ "pool": "api" });
    of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    of
}

/// Closes the gates of a target for this time.
async fn close_for(world: &World, of: Value, ms: u64) -> Timestamp {
    let at = world.now().plus_ms(ms);
    change(world, set(of, json!({ "closedUntil": at }))).await;
    at
}

async fn sent(world: &World, name: &str, k: &str) -> RunId {
    world.send_for_run(name, json!({ "k": k })).await
}

async fn ready(world: &World) -> Vec<RunId> {
    world.lease_all().await.iter().map(|run: &Run| run.id).collect()
}

/// Says whether the only override in force has drained.
async fn is_drained(world: &World) -> Option<bool> {
    let all = in_force(world).await;
    let found = look(&*world.store, &world.ws, |draft| drained(draft, &world.ws, &all)).await;
    let found: Vec<Option<bool>> = found.expect("a query");
    assert_eq!(found.len(), 1);
    found[0]
}

/// spec L24: an override of a pool's limit holds for the runs of all workflows that use it.
pub async fn an_override_of_a_pool_holds_for_all_its_workflows(world: &World) {
    shared(world, "concurrency", json!({ "limit": 1 })).await;
    let of = || pool(json!({ "control": "concurrency" }));
    for _ in 0..3 {
        sent(world, "chat", "a").await;
        sent(world, "index", "a").await;
    }
    assert_eq!(leased(world).await, 1);
    change(world, set(of(), json!({ "limit": 4 }))).await;
    world.sweep().await;
    assert_eq!(leased(world).await, 3, "the limit is 4, over both workflows");
    world.put_pool(json!({ "name": "api", "concurrency": { "limit": 2 } })).await;
    world.sweep().await;
    assert_eq!(leased(world).await, 0, "the pool's own number is overridden");
    remove(world, of()).await;
    assert_eq!(leased(world).await, 0, "nobody was evicted: 4 are inside");
    assert_eq!(operations(world, &of()).await, ["removeOverride", "setOverride"]);
    world.check_holds().await;
}

/// spec L24: the limit of a pool with span `run` is overridden, too, for one key.
pub async fn a_pool_that_runs_hold_until_their_end_is_overridden(world: &World) {
    shared(world, "concurrency", json!({ "limit": 1, "key": "k", "span": "run" })).await;
    let of = pool(json!({ "control": "concurrency", "key": "a" }));
    change(world, set(of.clone(), json!({ "limit": 2 }))).await;
    for k in ["a", "a", "a", "b", "b"] {
        sent(world, "chat", k).await;
    }
    assert_eq!(leased(world).await, 3, "two of `a`, one of `b`");
    change(world, set(of, json!({ "limit": 3 }))).await;
    world.sweep().await;
    assert_eq!(leased(world).await, 1);
    world.check_holds().await;
}

/// spec L24: `position` names one of several rates of a pool; the default burst of a rate limit
/// follows its limit.
pub async fn the_throttle_and_the_rate_limit_of_a_pool_are_overridden_by_position(world: &World) {
    let rates = json!([
        { "limit": 2, "perMs": 1000, "burst": 2 },
        { "limit": 5, "perMs": 60_000, "burst": 5 },
    ]);
    shared(world, "throttle", rates).await;
    let of = |n: u32| pool(json!({ "control": "throttle", "position": n }));
    change(world, set(of(1), json!({ "burst": 3 }))).await;
    for _ in 0..4 {
        sent(world, "chat", "a").await;
        sent(world, "index", "a").await;
    }
    assert_eq!(leased(world).await, 2);
    world.tick(1000).await;
    assert_eq!(leased(world).await, 1, "the second rate has a burst of 3");
    let rate = json!({ "limit": 4, "perMs": 1000 });
    world.put_pool(json!({ "name": "quota", "rateLimit": rate })).await;
    world.define(json!({ "name": "ask", "rateLimit": { "pool": "quota", "cost": "n" } })).await;
    let of = || json!({ "pool": "quota", "control": "rateLimit" });
    change(world, set(of(), json!({ "limit": 2 }))).await;
    let rejected = world.send("ask", json!({ "n": 3 })).await;
    assert!(matches!(rejected, Verdict::Rejected { .. }), "{rejected:?}");
    assert!(matches!(world.send("ask", json!({ "n": 2 })).await, Verdict::Started { .. }));
    assert!(matches!(world.send("ask", json!({})).await, Verdict::Dropped { .. }));
    remove(world, of()).await;
    world.tick(1000).await;
    assert!(matches!(world.send("ask", json!({ "n": 4 })).await, Verdict::Started { .. }));
}

/// spec L25: a paused pool lets no run in, first starts and wakes alike; what is inside goes on.
pub async fn a_paused_pool_lets_nobody_in_and_what_is_inside_goes_on(world: &World) {
    shared(world, "concurrency", json!({ "limit": 3 })).await;
    let first = world.drive("chat", json!({})).await;
    let second = world.drive("index", json!({})).await;
    let of = || pool(json!({}));
    pause(world, of()).await;
    let third = sent(world, "index", "a").await;
    assert_eq!(leased(world).await, 0, "there is room, but the pool is paused");
    world.sleep(&first, "nap", 1000).await;
    world.tick(1000).await;
    assert_eq!(leased(world).await, 0, "a wake is an entry, too");
    let step = crate::world::step("inside", &json!(1));
    let recorded = world.report(&second, vec![step], tidegate_core::run::record::Then::Continue);
    recorded.await.expect("what is inside goes on");
    world.complete(&second).await;
    assert_eq!(world.state(second.id).await, "completed");
    world.tick(60_000).await;
    assert_eq!(leased(world).await, 0);
    world.check_holds().await;
    remove(world, of()).await;
    assert_eq!(ready(world).await, [first.id, third]);
}

/// spec L25, G5: a pause of one key or of a prefix delays no other key of the pool.
pub async fn a_pool_is_paused_for_one_key_or_a_prefix(world: &World) {
    shared(world, "concurrency", json!({ "limit": 1, "key": "k" })).await;
    pause(world, pool(json!({ "key": "us-1" }))).await;
    pause(world, pool(json!({ "keyPrefix": "eu-" }))).await;
    let open = pool(json!({ "key": "eu-2" }));
    change(world, set(open, json!({ "paused": false }))).await;
    let mut runs = Vec::new();
    for (name, k) in [("chat", "us-1"), ("index", "us-2"), ("chat", "eu-1"), ("index", "eu-2")] {
        runs.push(sent(world, name, k).await);
    }
    assert_eq!(world.drain().await, [runs[1], runs[3]], "`eu-2` is an exception");
    remove(world, pool(json!({ "keyPrefix": "eu-" }))).await;
    assert_eq!(world.drain().await, [runs[2]]);
    remove(world, pool(json!({ "key": "us-1" }))).await;
    assert_eq!(world.drain().await, [runs[0]]);
}

/// spec L25, M1: a run that has its turn is inside: it starts, and its start is counted.
pub async fn a_run_with_a_turn_starts_in_a_paused_pool_and_is_counted(world: &World) {
    shared(world, "throttle", json!({ "limit": 1, "perMs": 10_000 })).await;
    let first = sent(world, "chat", "a").await;
    let second = sent(world, "index", "a").await;
    pause(world, pool(json!({}))).await;
    assert_eq!(ready(world).await, [first]);
    world.tick(5000).await;
    remove(world, pool(json!({}))).await;
    assert_eq!(leased(world).await, 0, "5 s of the gap after the first start are left");
    world.tick(5000).await;
    assert_eq!(ready(world).await, [second]);
}

/// spec L25: `why` names the pause of the pool, with author and end.
pub async fn why_names_the_pause_of_a_pool(world: &World) {
    shared(world, "concurrency", json!({ "limit": 2 })).await;
    let end = world.now().plus_ms(60_000);
    change(world, until(set(pool(json!({})), json!({ "paused": true })), end)).await;
    let run = sent(world, "chat", "a").await;
    let explained = why(&*world.store, &world.ws, run).await.unwrap().unwrap();
    let at = end.rfc3339();
    let words = format!(
        "it waits for concurrency of pool `api` (closed, paused by ops until {at}: \
         the provider is slow), position 1 in the queue; freed by the end of the pause at {at}"
    );
    assert!(explained.sentence.contains(&words), "{}", explained.sentence);
    assert_eq!(explained.earliest, Some(end));
    world.tick(60_000).await;
    assert_eq!(ready(world).await, [run]);
}

/// spec L24: a target that no gate of a pool matches is refused, with what would.
pub async fn a_bad_target_of_a_pool_is_refused_with_the_fix(world: &World) {
    shared(world, "throttle", json!({ "limit": 1, "perMs": 1000, "key": "k" })).await;
    let limit = || json!({ "limit": 1 });
    let paused = || json!({ "paused": true });
    let later = json!({ "closedUntil": world.now().plus_ms(1) });
    let rows = [
        (json!({}), paused(), "give `workflow` or `pool`"),
        (pool(json!({ "workflow": "chat" })), paused(), "give `workflow` or `pool`, not both"),
        (pool(json!({ "path": "k" })), paused(), "leave out `path` for a pool"),
        (pool(json!({ "span": "run" })), paused(), "leave out `span` for a pool"),
        (pool(json!({ "key": "a", "keyPrefix": "a" })), paused(), "not both"),
        (pool(json!({ "keyPrefix": "" })), paused(), "`keyPrefix` is empty"),
        (pool(json!({ "control": "concurrency" })), limit(), "pool `api` has no concurrency"),
        (
            pool(json!({ "control": "throttle", "position": 1 })),
            limit(),
            "position 1: pool `api` has 1 throttle limits",
        ),
        (pool(json!({})), limit(), "`limit` does not belong to `pause`"),
        (
            pool(json!({ "control": "throttle" })),
            paused(),
            "leave out `control` to pause all entries into the pool",
        ),
        (
            pool(json!({ "control": "throttle" })),
            json!({ "closedUntil": world.now() }),
            "closedUntil must be in the future",
        ),
    ];
    for (of, fields, text) in rows {
        let shown = format!("{of} {fields}");
        let refused = ask(world, set(of, fields), None).await.expect_err(&shown);
        assert!(refused.to_string().contains(text), "{shown}: {refused}");
    }
    let unknown = ask(world, set(json!({ "pool": "apy" }), paused()), None).await.unwrap_err();
    assert_eq!(unknown.code(), "no_pool");
    let known =
        PoolRefusal::NoPool { name: "apy".to_owned(), hint: "did you mean `api`?".to_owned() };
    assert_eq!(unknown.to_string(), known.to_string());
    let rate = json!({ "limit": 1, "perMs": 1000 });
    world.define(json!({ "name": "ask", "rateLimit": rate })).await;
    let of = json!({ "workflow": "ask", "control": "rateLimit" });
    let refused = ask(world, set(of, later), None).await.unwrap_err().to_string();
    assert_eq!(refused, "override: `closedUntil` does not belong to `rateLimit`");
    assert_eq!(in_force(world).await, []);
}

/// spec L25: a limit of a workflow that is closed until a time lets no run in, wakes included, and
/// opens by itself.
pub async fn a_closed_limit_opens_again_at_its_time(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 2 } })).await;
    let first = world.drive("sync", json!({})).await;
    let of = || json!({ "workflow": "sync", "control": "concurrency" });
    let at = close_for(world, of(), 5000).await;
    let second = world.send_for_run("sync", json!({})).await;
    world.sleep(&first, "nap", 1000).await;
    world.tick(4999).await;
    assert_eq!(leased(world).await, 0);
    let explained = why(&*world.store, &world.ws, second).await.unwrap().unwrap();
    let words = format!(
        "(closed, closed by ops until {0}: the provider is slow), position 2 in the queue; freed \
         by its opening at {0}",
        at.rfc3339()
    );
    assert!(explained.sentence.contains(&words), "{}", explained.sentence);
    world.tick(1).await;
    assert_eq!(ready(world).await, [first.id, second]);
    assert_eq!(in_force(world).await, []);
    assert_eq!(operations(world, &of()).await, ["expireOverride", "setOverride"]);
    world.check_holds().await;
}

/// spec L25: a closed throttle keeps first starts waiting; what has started wakes.
pub async fn a_closed_throttle_stops_first_starts_only(world: &World) {
    let throttle = json!({ "limit": 10, "perMs": 1000, "burst": 10 });
    world.define(json!({ "name": "sync", "throttle": throttle })).await;
    let first = world.drive("sync", json!({})).await;
    close_for(world, json!({ "workflow": "sync", "control": "throttle" }), 5000).await;
    let second = world.send_for_run("sync", json!({})).await;
    world.sleep(&first, "nap", 1000).await;
    world.tick(1000).await;
    assert_eq!(ready(world).await, [first.id]);
    world.tick(4000).await;
    assert_eq!(ready(world).await, [second]);
}

/// spec L24, L25: when `closedUntil` is over, the other fields of the override stay in force.
pub async fn a_closing_ends_before_the_rest_of_its_override(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1 } })).await;
    let of = || json!({ "workflow": "sync", "control": "concurrency" });
    let at = world.now().plus_ms(1000);
    let fields = json!({ "limit": 3, "closedUntil": at });
    let end = world.now().plus_ms(5000);
    change(world, until(set(of(), fields), end)).await;
    for _ in 0..5 {
        world.send_for_run("sync", json!({})).await;
    }
    assert_eq!(leased(world).await, 0);
    world.tick(1000).await;
    assert_eq!(leased(world).await, 3);
    let left = in_force(world).await;
    assert_eq!((left[0].fields.limit, left[0].fields.closed_until), (Some(3), None));
    let undo = OverrideChange::Undo(target(of()));
    let undone = change(world, undo).await.after.expect("the override without its closing");
    assert_eq!((undone.fields.limit, undone.fields.closed_until), (Some(3), None));
    world.tick(4000).await;
    assert_eq!(in_force(world).await, [], "the rest ends at `expiresAt`");
}

/// spec L19, L20, L24: new runs wait at a closed gate, so that its queue fills, and expire there.
pub async fn a_closed_gate_fills_its_queue_and_its_runs_expire(world: &World) {
    let limit = json!({ "limit": 2, "queue": { "maxWaiting": 1 } });
    let definition = json!({ "name": "sync", "concurrency": limit, "startWithinMs": 1000 });
    world.define(definition).await;
    close_for(world, json!({ "workflow": "sync", "control": "concurrency" }), 5000).await;
    let waits = world.send_for_run("sync", json!({})).await;
    let posted = world.post("sync", json!({})).await;
    assert!(
        matches!(posted.runs[0].verdict, Verdict::QueueFull { waiting: 1, .. }),
        "{:?}",
        posted.runs[0].verdict
    );
    world.tick(999).await;
    assert_eq!(world.state(waits).await, "queued");
    world.tick(1).await;
    assert_eq!(world.cancelled(waits).await.0, "expired");
    let next = world.send_for_run("sync", json!({})).await;
    assert_eq!(world.state(next).await, "queued");
    world.check_holds().await;
}

/// spec F4, L25: a fold whose flush a closed gate without a queue would refuse waits for the gate.
pub async fn a_closed_empty_gate_keeps_its_folds(world: &World) {
    let queue = json!({ "maxWaiting": 0 });
    let limit = json!({ "limit": 1, "span": "run", "queue": queue });
    let batch = json!({ "maxSize": 10, "timeoutMs": 100 });
    world.define(json!({ "name": "sync", "concurrency": limit, "batch": batch })).await;
    let of = json!({ "workflow": "sync", "control": "concurrency", "span": "run" });
    close_for(world, of, 5000).await;
    world.send("sync", json!({})).await;
    world.tick(4000).await;
    assert_eq!(leased(world).await, 0, "the buffer is held");
    world.tick(1000).await;
    world.sweep().await;
    assert_eq!(leased(world).await, 1);
}

/// spec L25: `drained` says of a workflow that no started run lives, of a pool that nobody holds.
pub async fn a_pause_says_whether_its_target_has_drained(world: &World) {
    shared(world, "concurrency", json!({ "limit": 5, "key": "k" })).await;
    let run = world.drive("chat", json!({ "k": "a" })).await;
    sent(world, "chat", "b").await;
    pause(world, json!({ "workflow": "chat" })).await;
    assert_eq!(is_drained(world).await, Some(false));
    world.sleep(&run, "nap", 1000).await;
    assert_eq!(is_drained(world).await, Some(false), "a sleeping run has started");
    world.tick(1000).await;
    let woken = world.lease_one().await;
    remove(world, json!({ "workflow": "chat" })).await;
    pause(world, pool(json!({ "key": "a" }))).await;
    assert_eq!(is_drained(world).await, Some(false));
    world.complete(&woken).await;
    assert_eq!(is_drained(world).await, Some(true), "`b` has another key");
    remove(world, pool(json!({ "key": "a" }))).await;
    pause(world, json!({ "workflow": "index" })).await;
    assert_eq!(is_drained(world).await, Some(true));
    remove(world, json!({ "workflow": "index" })).await;
    let of = pool(json!({ "control": "concurrency" }));
    change(world, set(of, json!({ "limit": 1 }))).await;
    assert_eq!(is_drained(world).await, None, "only pauses drain");
}

/// spec L24, M1: a change of the pool converts meters to the rate in force, not to its own: the
/// starts that the override allowed stay counted.
pub async fn a_change_of_a_pool_keeps_the_meter_of_its_override(world: &World) {
    let own = |per_ms: u64| json!({ "limit": 1, "perMs": per_ms, "burst": 1 });
    shared(world, "throttle", own(1000)).await;
    let of = pool(json!({ "control": "throttle" }));
    change(world, set(of, json!({ "burst": 10, "perMs": 1000 }))).await;
    for _ in 0..11 {
        sent(world, "chat", "a").await;
    }
    assert_eq!(leased(world).await, 10);
    world.put_pool(json!({ "name": "api", "throttle": own(2000) })).await;
    world.sweep().await;
    assert_eq!(leased(world).await, 0, "ten turns are spent");
    assert_eq!(world.inside("api", Class::PoolThrottle, "(whole)").await, 0);
    world.tick(1000).await;
    assert_eq!(leased(world).await, 1);
}
