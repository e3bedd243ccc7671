//! Overrides: limits and pauses without a release (spec L24, L25, L26).

use serde_json::{Value, json};
use tidegate_core::{
    audit::Author,
    command::{Answer, Command},
    flow::Verdict,
    id::{RunId, Seq},
    overrides::{Overridden, Override, OverrideChange, Target},
    reads::{ReadSet, Scan},
    row::{Gate, GateState, Phase, Row},
    time::Timestamp,
};

use tidegate_store::{Answered, why};

use crate::world::{World, event};

pub(super) fn target(value: Value) -> Target {
    let mut value = value;
    if value["pool"].is_null() {
        value["app"] = json!(tidegate_core::definition::DEFAULT_APP);
    }
    serde_json::from_value(value).expect("a target")
}

pub(super) fn set(of: Value, fields: Value) -> OverrideChange {
    let fields = serde_json::from_value(fields).expect("fields");
    let reason = Some("the provider is slow".to_owned());
    OverrideChange::Set { target: target(of), fields, reason, expires_at: None }
}

pub(super) fn until(change: OverrideChange, at: Timestamp) -> OverrideChange {
    let OverrideChange::Set { target, fields, reason, .. } = change else { return change };
    OverrideChange::Set { target, fields, reason, expires_at: Some(at) }
}

pub(super) async fn ask(world: &World, change: OverrideChange, if_epoch: Option<i64>) -> Answered {
    let by = Author { name: Some("ops".to_owned()), address: None };
    let (ws, change) = (world.ws.clone(), Box::new(change));
    world.run(Command::Override { ws, change, by, if_epoch }).await
}

pub(super) async fn change(world: &World, change: OverrideChange) -> Overridden {
    match ask(world, change, None).await {
        Ok(Answer::Overridden(overridden)) => *overridden,
        other => panic!("the override is not accepted: {other:?}"),
    }
}

pub(super) async fn pause(world: &World, of: Value) -> Overridden {
    change(world, set(of, json!({ "paused": true }))).await
}

pub(super) async fn remove(world: &World, of: Value) -> Overridden {
    let overridden = change(world, OverrideChange::Remove(target(of))).await;
    world.sweep().await;
    overridden
}

/// Returns the number of runs that can be leased now.
pub(super) async fn leased(world: &World) -> usize {
    world.lease_all().await.len()
}

pub(super) async fn in_force(world: &World) -> Vec<Override> {
    let snapshot = world.read(ReadSet::default().catalog(&world.ws)).await;
    snapshot.catalogs[&world.ws].overrides().iter().map(|it| Override::clone(it)).collect()
}

async fn send(world: &World, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for n in 0..count {
        runs.push(world.send_for_run("sync", json!({ "n": n })).await);
    }
    runs
}

fn ids(runs: &[tidegate_core::row::Run]) -> Vec<RunId> {
    runs.iter().map(|run| run.id).collect()
}

/// spec L24: a lower limit evicts no run, a higher one lets the queue in at once.
pub async fn an_override_takes_effect_at_once_and_evicts_nobody(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 2 } })).await;
    let sent = send(world, 8).await;
    let driven = world.lease_all().await;
    assert_eq!(ids(&driven), sent[..2]);
    let of = || json!({ "workflow": "sync", "control": "concurrency" });
    change(world, set(of(), json!({ "limit": 1 }))).await;
    world.complete(&driven[0]).await;
    assert_eq!(leased(world).await, 0, "one run is inside, and the limit is 1");
    world.complete(&driven[1]).await;
    assert_eq!(leased(world).await, 1);
    change(world, set(of(), json!({ "limit": 4 }))).await;
    world.sweep().await;
    assert_eq!(leased(world).await, 3, "the limit is 4");
    let overridden = remove(world, of()).await;
    assert_eq!(overridden.after, None);
    assert_eq!(overridden.before.map(|it| it.fields.limit), Some(Some(4)));
    assert_eq!(world.alive("sync").await, 6, "nobody was evicted");
    world.check_holds().await;
}

/// spec L24: exact key, longest prefix, all keys, definition; each field by itself.
pub async fn the_most_specific_override_rules_each_field(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "key": "id", "burst": 1 });
    world.define(json!({ "name": "sync", "throttle": throttle })).await;
    let of = |more: Value| {
        let mut of = json!({ "workflow": "sync", "control": "throttle", "path": "id" });
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of
    };
    change(world, set(of(json!({})), json!({ "burst": 2 }))).await;
    change(world, set(of(json!({ "keyPrefix": "a" })), json!({ "burst": 3 }))).await;
    change(world, set(of(json!({ "keyPrefix": "ab" })), json!({ "burst": 4 }))).await;
    change(world, set(of(json!({ "key": "abc" })), json!({ "perMs": 500 }))).await;
    change(world, set(of(json!({ "key": "abd" })), json!({ "burst": 5 }))).await;
    change(world, set(of(json!({ "key": 7 })), json!({ "burst": 6 }))).await;
    let cases = [("\"x\"", 2), ("\"a\"", 3), ("\"ab\"", 4), ("\"abc\"", 4), ("\"abd\"", 5)];
    for (key, burst) in cases.into_iter().chain([("7", 6), ("\"7\"", 2), ("true", 2), ("null", 2)])
    {
        let key: Value = serde_json::from_str(key).unwrap();
        for _ in 0..8 {
            world.send("sync", json!({ "id": key })).await;
        }
        assert_eq!(leased(world).await, burst, "key {key}");
    }
    world.tick(500).await;
    assert_eq!(leased(world).await, 1, "only `abc` has the shorter period");
    change(world, OverrideChange::Remove(target(of(json!({ "keyPrefix": "ab" }))))).await;
    for _ in 0..8 {
        world.send("sync", json!({ "id": "abe" })).await;
    }
    assert_eq!(leased(world).await, 3, "the next longer prefix applies");
}

/// spec L24: the default burst of a rate limit follows its limit, and a cost is refused by the
/// burst in force.
pub async fn a_rate_limit_and_its_costs_follow_their_override(world: &World) {
    let limit = json!({ "limit": 4, "perMs": 1000, "cost": "n" });
    world.define(json!({ "name": "sync", "rateLimit": limit })).await;
    let of = || json!({ "workflow": "sync", "control": "rateLimit" });
    change(world, set(of(), json!({ "limit": 2 }))).await;
    let rejected = world.send("sync", json!({ "n": 3 })).await;
    assert!(matches!(rejected, Verdict::Rejected { .. }), "{rejected:?}");
    assert!(matches!(world.send("sync", json!({ "n": 2 })).await, Verdict::Started { .. }));
    assert!(matches!(world.send("sync", json!({})).await, Verdict::Dropped { .. }));
    remove(world, of()).await;
    world.tick(1000).await;
    assert!(matches!(world.send("sync", json!({ "n": 4 })).await, Verdict::Started { .. }));
}

/// spec L24: of several limits with one key, `position` names the one that is replaced.
pub async fn a_throttle_is_overridden_by_position(world: &World) {
    let throttle = json!([
        { "limit": 2, "perMs": 1000, "burst": 2 },
        { "limit": 5, "perMs": 60_000, "burst": 5 },
    ]);
    world.define(json!({ "name": "sync", "throttle": throttle })).await;
    let of = |n: u32| json!({ "workflow": "sync", "control": "throttle", "position": n });
    change(world, set(of(1), json!({ "burst": 3 }))).await;
    send(world, 9).await;
    assert_eq!(leased(world).await, 2);
    world.tick(1000).await;
    assert_eq!(leased(world).await, 1, "the second limit has a burst of 3");
    let refused = ask(world, set(of(2), json!({ "burst": 3 })), None).await.unwrap_err();
    assert_eq!(refused.code(), "bad_target");
}

/// spec L24: a release replaces numbers of the definition, not overrides.
pub async fn an_override_survives_releases_and_ends_when_it_is_removed(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 5 } })).await;
    let of = || json!({ "workflow": "sync", "control": "concurrency" });
    change(world, set(of(), json!({ "limit": 1 }))).await;
    world.define(json!({ "name": "sync", "version": 2, "concurrency": { "limit": 4 } })).await;
    send(world, 6).await;
    assert_eq!(leased(world).await, 1);
    remove(world, of()).await;
    assert_eq!(leased(world).await, 3, "the limit of the release is 4");
    let gone = ask(world, OverrideChange::Remove(target(of())), None).await.unwrap_err();
    assert_eq!(gone.code(), "no_override");
}

/// spec L24: the end of an override raises the limit by itself, and is in the history.
pub async fn an_override_that_expires_lets_the_queue_in(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 4 } })).await;
    let of = || json!({ "workflow": "sync", "control": "concurrency" });
    let end = world.now().plus_ms(10_000);
    change(world, until(set(of(), json!({ "limit": 1 })), end)).await;
    send(world, 6).await;
    assert_eq!(leased(world).await, 1);
    world.tick(9_999).await;
    assert_eq!(leased(world).await, 0, "the override has not ended");
    assert_eq!(in_force(world).await.len(), 1);
    world.tick(1).await;
    assert_eq!(leased(world).await, 3);
    assert_eq!(in_force(world).await, []);
    let refused = ask(world, OverrideChange::Undo(target(of())), None).await.unwrap_err();
    assert_eq!(refused.code(), "override_expired");
    assert_eq!(operations(world, &of()).await, ["expireOverride", "setOverride"]);
    // An override that replaces another one has an end of its own.
    let end = world.now().plus_ms(10_000);
    change(world, until(set(of(), json!({ "limit": 1 })), end)).await;
    change(world, set(of(), json!({ "limit": 2 }))).await;
    world.tick(20_000).await;
    assert_eq!(in_force(world).await.len(), 1, "the second override has no end");
}

pub(super) async fn operations(world: &World, of: &Value) -> Vec<String> {
    let scan = Scan::AuditOf(world.ws.clone(), target(of.clone()).subject(), Seq(i64::MAX));
    let snapshot = world.read(ReadSet::default().scan(scan.clone(), 10)).await;
    let rows = snapshot.found(&scan).into_iter();
    let rows = rows.filter_map(|row| if let Row::Audit(it) = row { Some(it) } else { None });
    rows.map(|row| row.operation.clone()).collect()
}

/// spec L26: an undo restores the row before the latest change, with its author and end; an undo of
/// an undo repeats the change.
pub async fn an_undo_restores_exactly_what_was_in_force(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 4 } })).await;
    let of = || json!({ "workflow": "sync", "control": "concurrency" });
    let undo = || OverrideChange::Undo(target(of()));
    let nothing = ask(world, undo(), None).await.unwrap_err();
    assert_eq!(nothing.code(), "nothing_to_undo");
    let end = world.now().plus_ms(60_000);
    let first = change(world, until(set(of(), json!({ "limit": 1 })), end)).await.after;
    world.tick(100).await;
    change(world, set(of(), json!({ "limit": 3 }))).await;
    assert_eq!(change(world, undo()).await.after, first);
    assert_eq!(in_force(world).await, first.iter().cloned().collect::<Vec<_>>());
    assert_eq!(change(world, undo()).await.after.map(|it| it.fields.limit), Some(Some(3)));
    assert_eq!(change(world, undo()).await.after, first);
    world.tick(60_000).await;
    assert_eq!(in_force(world).await, [], "the restored override has its end");
    let history = operations(world, &of()).await;
    assert_eq!(history[0], "expireOverride");
    assert_eq!(history[1..4], ["undoOverride"; 3]);
    change(world, set(of(), json!({ "limit": 2 }))).await;
    remove(world, of()).await;
    assert_eq!(change(world, undo()).await.after.map(|it| it.fields.limit), Some(Some(2)));
}

/// spec L24: `why` names author, reason and end of each override that applies.
pub async fn why_names_the_author_the_reason_and_the_end(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 4 } })).await;
    let of = json!({ "workflow": "sync", "control": "concurrency" });
    let end = world.now().plus_ms(60_000);
    change(world, until(set(of, json!({ "limit": 1 })), end)).await;
    let sent = send(world, 2).await;
    let explained = why(&*world.store, &world.ws, sent[1]).await.unwrap().unwrap();
    let end = end.rfc3339();
    let words = format!("1 at once, overridden by ops until {end}: the provider is slow");
    assert!(explained.sentence.contains(&words), "{}", explained.sentence);
    assert_eq!(explained.gates[0].overrides.len(), 1);
    pause(world, json!({ "workflow": "sync" })).await;
    let third = send(world, 1).await[0];
    let explained = why(&*world.store, &world.ws, third).await.unwrap().unwrap();
    let words = "it waits to start: the whole workflow is paused by ops: the provider is slow; \
                 position 1 in the queue; freed by the end of the pause";
    assert!(explained.sentence.contains(words), "{}", explained.sentence);
}

/// spec L24: what no gate or field can match is refused, with what would.
pub async fn a_bad_override_is_refused_with_the_fix(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "key": "id" });
    let concurrency = json!([{ "limit": 4 }, { "limit": 2, "key": "id", "span": "run" }]);
    let definition = json!({ "name": "sync", "throttle": throttle, "concurrency": concurrency });
    world.define(definition).await;
    let limit = || json!({ "limit": 1 });
    let rows = [
        (json!({ "workflow": "no" }), json!({ "paused": true }), "no_workflow"),
        (json!({ "workflow": "sync", "control": "rateLimit" }), limit(), "bad_target"),
        (json!({ "workflow": "sync", "control": "throttle" }), limit(), "bad_target"),
        (
            json!({ "workflow": "sync", "control": "concurrency", "path": "id" }),
            limit(),
            "bad_target",
        ),
        (json!({ "workflow": "sync", "control": "throttle", "key": "a" }), limit(), "bad_target"),
        (json!({ "workflow": "sync", "path": "no" }), json!({ "paused": true }), "bad_target"),
        (json!({ "workflow": "sync" }), limit(), "bad_override"),
        (json!({ "workflow": "sync" }), json!({}), "bad_override"),
        (
            json!({ "workflow": "sync", "control": "concurrency" }),
            json!({ "burst": 1 }),
            "bad_override",
        ),
        (
            json!({ "workflow": "sync", "control": "concurrency" }),
            json!({ "limit": 0 }),
            "bad_override",
        ),
        (
            json!({ "workflow": "sync", "control": "concurrency" }),
            json!({ "paused": true }),
            "bad_override",
        ),
        (
            json!({ "workflow": "sync", "control": "throttle", "path": "id" }),
            json!({ "perMs": u64::MAX / 2, "burst": 1_000_000 }),
            "bad_override",
        ),
    ];
    for (of, fields, code) in rows {
        let shown = format!("{of} {fields}");
        let refused = ask(world, set(of, fields), None).await.expect_err(&shown);
        assert_eq!(refused.code(), code, "{shown}: {refused}");
    }
    let past = until(set(json!({ "workflow": "sync" }), json!({ "paused": true })), world.now());
    assert_eq!(ask(world, past, None).await.unwrap_err().code(), "bad_override");
    let of = json!({ "workflow": "sync", "control": "concurrency", "path": "id" });
    let refused = ask(world, set(of, limit()), None).await.unwrap_err().to_string();
    assert_eq!(refused, "override: `sync` has no concurrency with path `id`; its paths: no key");
    assert_eq!(in_force(world).await, []);
}

/// spec L26: a change with `ifEpoch` is refused after any other change.
pub async fn a_change_under_an_old_epoch_is_refused(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 4 } })).await;
    let of = || json!({ "workflow": "sync", "control": "concurrency" });
    let seen = change(world, set(of(), json!({ "limit": 1 }))).await.epoch;
    let late = ask(world, set(of(), json!({ "limit": 3 })), Some(seen)).await.unwrap_err();
    assert_eq!(late.code(), "epoch_changed");
    let again = ask(world, set(of(), json!({ "limit": 3 })), Some(seen + 1)).await;
    assert!(again.is_ok(), "{again:?}");
}

/// spec L24: a chore marks the queues that one transaction does not reach.
pub async fn a_higher_limit_reaches_more_queues_than_a_transaction(world: &World) {
    const KEYS: usize = 300;
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1, "key": "id" } })).await;
    let of = json!({ "workflow": "sync", "control": "concurrency", "path": "id" });
    let events = |n: usize| event("sync", &json!({ "id": format!("{n:04}") }));
    for _ in 0..2 {
        world.post_all((0..KEYS).map(events).collect()).await;
    }
    let mut driven = 0;
    loop {
        let runs = leased(world).await;
        driven += runs;
        if runs == 0 {
            break;
        }
    }
    assert_eq!(driven, KEYS);
    change(world, set(of, json!({ "limit": 2 }))).await;
    world.sweep().await;
    loop {
        let runs = leased(world).await;
        driven += runs;
        if runs == 0 {
            break;
        }
    }
    assert_eq!(driven, 2 * KEYS);
}

/// spec L25: a pause stops first starts; what has started goes on, wakes included.
pub async fn a_paused_workflow_starts_nothing_and_goes_on_with_what_has_started(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1 } })).await;
    let first = world.drive("sync", json!({})).await;
    let second = world.send_for_run("sync", json!({})).await;
    let of = || json!({ "workflow": "sync" });
    pause(world, of()).await;
    let third = world.send_for_run("sync", json!({})).await;
    world.sleep(&first, "nap", 1000).await;
    assert_eq!(leased(world).await, 0, "the second run has not started");
    world.tick(1000).await;
    let woken = world.lease_one().await;
    assert_eq!(woken.id, first.id, "the wake goes on");
    world.complete(&woken).await;
    world.tick(10_000).await;
    assert_eq!(leased(world).await, 0);
    world.check_holds().await;
    remove(world, of()).await;
    assert_eq!(world.drain().await, [second, third]);
}

/// spec L25: runs that are ready when the pause begins wait, too, and give back their turns and
/// executing places.
pub async fn a_ready_run_gives_everything_back_when_its_workflow_is_paused(world: &World) {
    let definition = json!({
        "name": "sync",
        "throttle": { "limit": 1, "perMs": 1000, "key": "id" },
        "concurrency": { "limit": 1 },
    });
    world.define(definition).await;
    let [a, b] = ["a", "b"];
    let ready = world.send_for_run("sync", json!({ "id": a })).await;
    let queued = world.send_for_run("sync", json!({ "id": b })).await;
    let of = || json!({ "workflow": "sync" });
    pause(world, of()).await;
    assert_eq!(leased(world).await, 0);
    world.check_holds().await;
    for row in world.dump().await {
        let Row::Gate(gate) = row else { continue };
        let inside = tidegate_core::flow::gate::holders(&gate);
        assert_eq!(inside, [], "{:?}", gate.key.scope());
    }
    remove(world, of()).await;
    assert_eq!(world.drain().await, [ready, queued]);
}

/// spec L25: a pause takes unstarted runs out of the queues behind the throttle, too, with the
/// places that they hold there.
pub async fn a_pause_takes_runs_back_that_wait_between_two_gates(world: &World) {
    for name in ["one", "two"] {
        world.put_pool(json!({ "name": name, "concurrency": { "limit": 1 } })).await;
    }
    let pools = |names: &[&str]| names.iter().map(|it| json!({ "pool": it })).collect::<Vec<_>>();
    world.define(json!({ "name": "both", "concurrency": pools(&["one", "two"]) })).await;
    world.define(json!({ "name": "first", "concurrency": pools(&["one"]) })).await;
    world.define(json!({ "name": "second", "concurrency": pools(&["two"]) })).await;
    let driven = world.drive("second", json!({})).await;
    let between = world.send_for_run("both", json!({})).await;
    let waits = world.send_for_run("first", json!({})).await;
    assert_eq!(leased(world).await, 0, "the run between the gates has the place of pool `one`");
    pause(world, json!({ "workflow": "both" })).await;
    world.sweep().await;
    assert_eq!(world.lease_one().await.id, waits, "the place of pool `one` is given back");
    world.check_holds().await;
    remove(world, json!({ "workflow": "both" })).await;
    world.complete(&driven).await;
    assert_eq!(leased(world).await, 0, "it waits for pool `one` again");
    assert_eq!(world.state(between).await, "queued");
}

/// spec L25: the end of an exception pauses runs that had come further; a second pause does not
/// bring them forward.
pub async fn the_end_of_an_exception_from_a_pause_takes_its_runs_back(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1, "key": "id" } })).await;
    world.define(json!({ "name": "other", "concurrency": { "limit": 1 } })).await;
    let of = || json!({ "workflow": "sync", "path": "id", "key": "eu-1" });
    let all = || json!({ "workflow": "sync", "path": "id", "keyPrefix": "eu-" });
    pause(world, all()).await;
    change(world, set(of(), json!({ "paused": false }))).await;
    let run = world.send_for_run("sync", json!({ "id": "eu-1" })).await;
    assert_eq!(held(world).await, [run]);
    remove(world, of()).await;
    world.sweep().await;
    assert_eq!(held(world).await, []);
    pause(world, json!({ "workflow": "sync" })).await;
    world.sweep().await;
    remove(world, all()).await;
    world.sweep().await;
    assert_eq!(leased(world).await, 0, "the whole workflow is paused");
    remove(world, json!({ "workflow": "sync" })).await;
    assert_eq!(world.drain().await, [run]);
}

/// spec L25: a chore takes back the runs of a paused workflow beyond its first transaction, those
/// of earlier versions among them.
pub async fn a_pause_of_many_runs_continues_in_a_chore(world: &World) {
    let version = |version| json!({ "name": "sync", "version": version, "startWithinMs": 600_000 });
    let mut runs = Vec::new();
    for (number, count) in [(1, 300), (2, 30)] {
        world.define(version(number)).await;
        runs.extend(send(world, count).await);
    }
    pause(world, json!({ "workflow": "sync" })).await;
    world.sweep().await;
    let rows = world.dump().await;
    let ready = rows.iter().filter_map(Row::as_run).filter(|run| run.phase == Phase::Ready);
    assert_eq!(ready.count(), 0, "a ready run was left");
    assert!(!rows.iter().any(|row| matches!(row, Row::Chore(_))), "the chore has ended");
    remove(world, json!({ "workflow": "sync" })).await;
    world.sweep().await;
    assert_eq!(world.drain().await.len(), runs.len());
}

/// spec L25: the chore of a pause goes on where a run that it has found ends in the same moment.
pub async fn the_end_of_a_run_ends_no_pause_of_many_runs(world: &World) {
    world.define(json!({ "name": "sync" })).await;
    let runs = send(world, 300).await;
    pause(world, json!({ "workflow": "sync" })).await;
    let rows = world.dump().await;
    let chore = rows.into_iter().find_map(|row| match row {
        Row::Chore(chore) => Some(Box::new(chore)),
        _ => None,
    });
    let cancel =
        Command::Cancel { ws: world.ws.clone(), run: runs[0], reason: "by hand".to_owned() };
    let sweep = Command::SweepChore { known: chore.expect("a chore takes the runs back") };
    for answer in world.batch(vec![cancel, sweep]).await {
        assert_eq!(answer, Ok(Answer::Done));
    }
    world.sweep().await;
    let rows = world.dump().await;
    let ready = rows.iter().filter_map(Row::as_run).filter(|run| run.phase == Phase::Ready);
    assert_eq!(ready.count(), 0, "a ready run was left");
}

/// Returns the runs inside gates.
async fn held(world: &World) -> Vec<RunId> {
    let rows = world.dump().await;
    let gates = rows.into_iter().filter_map(|row| match row {
        Row::Gate(Gate { state: GateState::Slots(slots), .. }) => Some(slots),
        _ => None,
    });
    gates.flat_map(|slots| slots.holders).map(|hold| hold.run).collect()
}

/// spec L25, G5: a paused key delays no other key at the gates of the whole workflow.
pub async fn a_paused_key_delays_no_other_key(world: &World) {
    let definition = json!({
        "name": "sync",
        "throttle": { "limit": 1, "perMs": 1000 },
        "concurrency": [{ "limit": 1 }, { "limit": 1, "key": "id" }],
    });
    world.define(definition).await;
    let first = world.drive("sync", json!({ "id": "x" })).await;
    let acme = world.send_for_run("sync", json!({ "id": "acme" })).await;
    let other = world.send_for_run("sync", json!({ "id": "other" })).await;
    let of = || json!({ "workflow": "sync", "path": "id", "key": "acme" });
    pause(world, of()).await;
    let late = world.send_for_run("sync", json!({ "id": "acme" })).await;
    world.complete(&first).await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [other], "acme is paused");
    world.tick(10_000).await;
    assert_eq!(leased(world).await, 0);
    remove(world, of()).await;
    let run = world.lease_one().await;
    assert_eq!(run.id, acme);
    world.complete(&run).await;
    world.tick(1000).await;
    assert_eq!(world.lease_one().await.id, late);
    world.check_holds().await;
}

/// spec L25: the queue of a throttle of which all runs are paused does not move.
pub async fn a_paused_throttle_keeps_its_queue(world: &World) {
    world.define(json!({ "name": "sync", "throttle": { "limit": 1, "perMs": 1000 } })).await;
    let first = world.drive("sync", json!({})).await;
    let sent = send(world, 20).await;
    pause(world, json!({ "workflow": "sync" })).await;
    let runs = |rows: Vec<Row>| {
        rows.into_iter().filter(|row| row.as_run().is_some_and(|run| run.id != first.id))
    };
    let before: Vec<Row> = runs(world.dump().await).collect();
    world.tick(60_000).await;
    assert_eq!(leased(world).await, 0);
    let after: Vec<Row> = runs(world.dump().await).collect();
    assert_eq!(before, after, "the pause has touched a queued run");
    remove(world, json!({ "workflow": "sync" })).await;
    for run in sent {
        assert_eq!(world.lease_one().await.id, run);
        world.tick(1000).await;
    }
}

/// spec L25, G4: after the pause runs start by rank, also those that came during it.
pub async fn runs_that_waited_for_a_pause_start_in_their_order(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 2 } })).await;
    pause(world, json!({ "workflow": "sync" })).await;
    let sent = send(world, 300).await;
    assert_eq!(leased(world).await, 0);
    remove(world, json!({ "workflow": "sync" })).await;
    let mut started = Vec::new();
    while started.len() < sent.len() {
        let runs = world.lease_all().await;
        assert!(!runs.is_empty(), "only {} of {} have started", started.len(), sent.len());
        for run in runs {
            started.push(run.id);
            world.complete(&run).await;
        }
        world.sweep().await;
    }
    assert_eq!(started, sent);
}

/// spec L24, L25: `paused: false` for one key is an exception from a pause of all keys.
pub async fn a_pause_with_an_exception_starts_only_the_exception(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1, "key": "id" } })).await;
    pause(world, json!({ "workflow": "sync", "path": "id", "keyPrefix": "eu-" })).await;
    let of = json!({ "workflow": "sync", "path": "id", "key": "eu-1" });
    change(world, set(of, json!({ "paused": false }))).await;
    let keys = ["eu-1", "eu-2", "us-1"];
    let mut runs = Vec::new();
    for id in keys {
        runs.push(world.send_for_run("sync", json!({ "id": id })).await);
    }
    assert_eq!(world.drain().await, [runs[0], runs[2]]);
    remove(world, json!({ "workflow": "sync", "path": "id", "keyPrefix": "eu-" })).await;
    assert_eq!(world.drain().await, [runs[1]]);
}

/// spec L25: a paused run keeps its run gates; `startWithinMs` runs on.
pub async fn a_paused_run_keeps_its_run_gates_and_expires(world: &World) {
    let definition = json!({
        "name": "sync", "singleton": { "mode": "skip" }, "startWithinMs": 5000,
    });
    world.define(definition).await;
    pause(world, json!({ "workflow": "sync" })).await;
    let run = world.send_for_run("sync", json!({})).await;
    let skipped = world.send("sync", json!({})).await;
    assert!(matches!(skipped, Verdict::Skipped { holder, .. } if holder == run), "{skipped:?}");
    world.tick(5000).await;
    assert_eq!(world.state(run).await, "cancelled");
    let next = world.send("sync", json!({})).await;
    assert!(matches!(next, Verdict::Queued { .. }), "{next:?}");
    world.check_holds().await;
}
