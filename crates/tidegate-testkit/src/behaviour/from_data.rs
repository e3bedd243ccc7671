//! Numbers from data: limits that each admitted run may change, and ranks that each run brings.

use serde_json::{Value, json};
use tidegate_core::{
    audit::Author,
    command::{Answer, Command},
    flow::Verdict,
    id::{EventId, RunId},
    observe::gates::{self, GateFilter, GateView},
    overrides::{Fields, OverrideChange, Target},
    row::{Class, Row},
};
use tidegate_store::{look, why};

use crate::world::World;

fn seats() -> Value {
    json!({ "from": "plan.seats", "default": 1, "min": 1, "max": 4 })
}

fn of(seats: u64) -> Value {
    json!({ "k": "acme", "plan": { "seats": seats } })
}

/// Posts an event for the key `acme` with this number.
async fn send(world: &World, seats: u64) -> RunId {
    world.send_for_run("job", of(seats)).await
}

/// Returns the number of runs inside the gate of `acme`.
async fn inside(world: &World) -> usize {
    world.inside("job", Class::Keyed, "acme").await
}

async fn shown(world: &World, control: &str) -> Vec<GateView> {
    let which = GateFilter { control: Some(control.to_owned()), ..GateFilter::default() };
    let list =
        look(&*world.store, &world.ws, |draft| gates::list(draft, &world.ws, &which, None, 10));
    list.await.expect("the gates are listed").gates
}

/// Returns the event that has set the limit of the only gate of a control, and the limit.
async fn set_by(world: &World, control: &str) -> (Option<EventId>, Option<u32>) {
    let gates = shown(world, control).await;
    let [gate] = gates.as_slice() else { panic!("not one gate: {gates:?}") };
    (gate.from_data.as_ref().map(|given| given.event_id), gate.limit)
}

async fn rejection(world: &World, data: Value) -> String {
    let verdict = world.send("job", data).await;
    let Verdict::Rejected { control, reason } = verdict else { panic!("{verdict:?}") };
    format!("{control}: {reason}")
}

/// spec L12: the newest admitted run sets the limit of its key. A higher one lets the queue in
/// within the same transaction, a lower one evicts no run, and other keys have limits of their own.
pub async fn the_newest_admitted_run_sets_the_limit_of_its_key(world: &World) {
    let limit = json!({ "limit": seats(), "key": "k", "span": "executing" });
    world.define(json!({ "name": "job", "concurrency": limit })).await;
    for _ in 0..3 {
        send(world, 2).await;
    }
    assert_eq!(inside(world).await, 2);
    let other = json!({ "k": "other" });
    for _ in 0..2 {
        world.send("job", other.clone()).await;
    }
    assert_eq!(world.inside("job", Class::Keyed, "other").await, 1, "the default is 1");
    let fourth = world.send("job", of(9)).await;
    assert!(
        matches!(fourth, Verdict::Started { .. }),
        "9 becomes 4, and there is room: {fourth:?}"
    );
    assert_eq!(inside(world).await, 4, "the queue enters with the event that raised the limit");
    let queued = world.send("job", of(1)).await;
    assert!(matches!(queued, Verdict::Queued { .. }), "{queued:?}");
    assert_eq!(inside(world).await, 4, "a lower limit evicted a run");
    let driven = world.lease_all().await;
    let here = driven.iter().filter(|run| run.rank.seq < queued.run().expect("a run").seq);
    for run in here.filter(|run| world_key(run) == "acme").take(3) {
        world.complete(run).await;
    }
    assert_eq!(inside(world).await, 1, "a run entered above the lower limit");
    world.check_holds().await;
}

fn world_key(run: &tidegate_core::row::Run) -> String {
    let scope = run.plan[0].gate.scope().expect("a gate's key");
    scope.key.to_string()
}

/// spec L12: an event that is refused sets no limit; nor does one whose value is no number, which is
/// rejected with the value.
pub async fn a_refused_event_sets_no_limit(world: &World) {
    let limit = json!({ "limit": seats(), "span": "run" });
    let rate = json!({ "limit": 2, "perMs": 60_000 });
    world.define(json!({ "name": "job", "concurrency": limit, "rateLimit": rate })).await;
    send(world, 1).await;
    send(world, 1).await;
    let dropped = world.send("job", of(4)).await;
    assert!(matches!(dropped, Verdict::Dropped { .. }), "{dropped:?}");
    let (_, limit) = set_by(world, "concurrency").await;
    assert_eq!(limit, Some(1), "a dropped event raised the limit");
    for (value, shown) in [(json!("4"), "\"4\""), (json!(2.5), "2.5"), (json!([4]), "[4]")] {
        let said = rejection(world, json!({ "plan": { "seats": value } })).await;
        let rule = "limit `plan.seats` must be a whole number";
        assert_eq!(said, format!("concurrency: {rule}, got {shown}"));
    }
}

/// spec L12: the number of the event that came last rules, not of the run that was admitted last: a
/// window keeps an event while later ones pass.
pub async fn the_highest_event_number_rules(world: &World) {
    let limit = json!({ "limit": seats(), "span": "run" });
    let quiet = json!({ "periodMs": 100, "key": "k" });
    world.define(json!({ "name": "job", "concurrency": limit, "debounce": quiet })).await;
    let early = world.post("job", json!({ "k": 1, "plan": { "seats": 2 } })).await;
    world.pass(50);
    let late = world.post("job", json!({ "k": 2, "plan": { "seats": 3 } })).await;
    world.tick(50).await;
    assert_eq!(set_by(world, "concurrency").await, (Some(early.id), Some(2)));
    world.tick(50).await;
    assert_eq!(set_by(world, "concurrency").await, (Some(late.id), Some(3)));
    let run = world.lease(1).await.remove(0);
    world.complete(&run).await;
    let replayed = world.replay(run.id).await;
    assert!(world.live(replayed).await.is_some());
    assert_eq!(
        set_by(world, "concurrency").await,
        (Some(late.id), Some(3)),
        "a replay of an older event set the limit"
    );
}

/// spec L12: the limit is kept while the gate has a holder or a queue, and a while after. A run that
/// comes back to its gate later brings its own number.
pub async fn a_limit_lives_with_its_gate(world: &World) {
    let limit = json!({ "limit": seats(), "key": "k" });
    world.define(json!({ "name": "job", "concurrency": limit })).await;
    let first = send(world, 2).await;
    let run = world.lease_one().await;
    world.tick(600_000).await;
    assert_eq!(set_by(world, "concurrency").await.1, Some(2), "the holder is still inside");
    world.sleep(&run, "nap", 300_000).await;
    world.tick(200_000).await;
    assert_eq!(shown(world, "concurrency").await, [], "an idle gate is deleted");
    world.tick(100_000).await;
    let gate = shown(world, "concurrency").await;
    assert_eq!(gate[0].limit, Some(2), "the run has lost its number");
    assert_eq!(gate[0].holders, [first]);
    assert!(matches!(world.send("job", of(2)).await, Verdict::Started { .. }));
    assert!(matches!(world.send("job", json!({ "k": "acme" })).await, Verdict::Queued { .. }));
    world.check_holds().await;
}

/// spec L12: throttles and rate limits read their numbers from data, too.
pub async fn rates_come_from_data(world: &World) {
    let rate = json!({ "limit": seats(), "perMs": 60_000 });
    world.define(json!({ "name": "job", "rateLimit": rate })).await;
    for seats in [3, 3, 3] {
        assert!(matches!(world.send("job", of(seats)).await, Verdict::Started { .. }));
    }
    assert!(matches!(world.send("job", of(3)).await, Verdict::Dropped { .. }));
    assert_eq!(set_by(world, "rateLimit").await.1, Some(3));
    let throttle = json!({ "limit": 1, "perMs": 1000, "burst": seats() });
    world.define(json!({ "name": "slow", "throttle": throttle })).await;
    for seats in [1, 3, 3, 3] {
        world.send("slow", of(seats)).await;
    }
    world.lease_all().await;
    let started = world.lease_all().await.len();
    assert_eq!(started, 0);
    let gates = shown(world, "throttle").await;
    assert_eq!(gates[0].burst, Some(3));
    assert_eq!(gates[0].line.as_ref().map(|line| line.count), Some(1), "{gates:?}");
}

/// spec L12, L24: an override replaces a limit from data while it is in force; events go on setting
/// the limit under it.
pub async fn an_override_replaces_a_limit_from_data(world: &World) {
    let limit = json!({ "limit": seats(), "key": "k" });
    world.define(json!({ "name": "job", "concurrency": limit })).await;
    let target = json!({
        "app": tidegate_core::definition::DEFAULT_APP, "workflow": "job",
        "control": "concurrency", "path": "k",
    });
    let target: Target = serde_json::from_value(target).expect("a target");
    let change = |change: OverrideChange| Command::Override {
        ws: world.ws.clone(),
        change: Box::new(change),
        by: Author::default(),
        if_epoch: None,
    };
    let fields = Fields { limit: Some(1), ..Fields::default() };
    let (reason, expires_at) = (None, None);
    let set = OverrideChange::Set { target: target.clone(), fields, reason, expires_at };
    assert!(matches!(world.run(change(set)).await, Ok(Answer::Overridden(_))));
    for _ in 0..3 {
        send(world, 3).await;
    }
    assert_eq!(inside(world).await, 1);
    assert!(world.run(change(OverrideChange::Remove(target))).await.is_ok());
    world.sweep().await;
    assert_eq!(inside(world).await, 3, "the newest event says 3");
}

/// spec L12: `why` and the list of gates name the number and the event that set it.
pub async fn why_names_the_event_that_set_the_limit(world: &World) {
    let limit = json!({ "limit": seats(), "key": "k" });
    world.define(json!({ "name": "job", "concurrency": limit })).await;
    send(world, 1).await;
    let last = world.post("job", of(1)).await;
    let queued = last.run().expect("a run");
    let why = why(&*world.store, &world.ws, queued).await.expect("explained").expect("it exists");
    let set = format!("(1 at once, set by event {})", last.id);
    assert!(why.sentence.contains(&set), "{}", why.sentence);
    assert_eq!(why.gates[0].from_data.as_ref().map(|given| given.event_id), Some(last.id));
    assert_eq!(set_by(world, "concurrency").await, (Some(last.id), Some(1)));
    let limit = json!({ "limit": 7, "key": "k" });
    world.define(json!({ "name": "job", "version": 2, "concurrency": limit })).await;
    assert_eq!(set_by(world, "concurrency").await, (None, Some(7)), "the release has a number");
    let rows = world.dump().await;
    let due = rows.iter().any(|row| matches!(row, Row::Gate(gate) if gate.due.is_some()));
    assert!(due, "the queue is not served under the new limit");
}

/// spec L14, P1: the shift of a rank comes from the data of each run, in its range.
pub async fn a_shift_comes_from_the_data_of_each_run(world: &World) {
    let shift = json!({ "from": "lead", "min": -1000, "max": 1000 });
    let limit = json!({ "limit": 1 });
    world
        .define(json!({ "name": "job", "concurrency": limit, "priority": { "shiftMs": shift } }))
        .await;
    world.send_for_run("job", json!({})).await;
    let driven = world.lease_one().await;
    let mut sent = Vec::new();
    for data in [
        json!({}),
        json!({ "lead": 500 }),
        json!({ "lead": -500 }),
        json!({ "lead": 1e9 }),
        json!({ "lead": null }),
        json!({ "lead": -1e9 }),
    ] {
        sent.push(world.send_for_run("job", data).await);
        world.tick(10).await;
    }
    world.complete(&driven).await;
    let mut order = Vec::new();
    for _ in 0..sent.len() {
        let run = world.lease_one().await;
        order.push(sent.iter().position(|id| *id == run.id).expect("it was sent"));
        world.complete(&run).await;
    }
    assert_eq!(order, [3, 1, 0, 4, 2, 5]);
    for (value, shown) in [(json!("5"), "\"5\""), (json!(0.5), "0.5"), (json!(true), "true")] {
        let said = rejection(world, json!({ "lead": value })).await;
        assert_eq!(said, format!("priority: shiftMs `lead` must be a whole number, got {shown}"));
    }
}

/// spec L14, P1: a negative shift moves a run behind runs that came later, by at most the shift.
pub async fn a_negative_shift_moves_a_run_behind_by_at_most_itself(world: &World) {
    let slow = json!({ "name": "job", "version": 1, "priority": { "shiftMs": -1000 } });
    world.define(slow).await;
    world.define(json!({ "name": "job", "version": 2 })).await;
    for (gap, behind) in [(0, true), (999, true), (1000, false), (1001, false)] {
        world.release("job", 1).await;
        let slow = world.send_for_run("job", json!({})).await;
        world.tick(gap).await;
        world.release("job", 2).await;
        let plain = world.send_for_run("job", json!({})).await;
        let first = world.lease(1).await.remove(0);
        assert_eq!(first.id, if behind { plain } else { slow }, "{gap} ms later");
        world.complete(&first).await;
        let second = world.lease_one().await;
        world.complete(&second).await;
        world.tick(10_000).await;
    }
}
