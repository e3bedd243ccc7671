//! Settling: a run corrects its reservation at a pool's throttle.

use serde_json::{Value, json};
use tidegate_core::{
    command::Command,
    id::RunId,
    row::{Class, GateKey, GateState, Row, Run, StepKind},
    run::record::{NewSend, Record, Sent, Then},
    time::Timestamp,
};

use crate::world::World;

/// Declares the pool `api` with 1 unit a second and a burst of 10, and a workflow that reserves the
/// units in its data.
async fn metered(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "burst": 10 });
    world.put_pool(json!({ "name": "api", "throttle": throttle })).await;
    let throttle = json!({ "pool": "api", "cost": "n" });
    world.define(json!({ "name": "ask", "throttle": throttle })).await;
}

async fn started(world: &World, n: u32) -> Run {
    world.send_for_run("ask", json!({ "n": n })).await;
    world.lease_one().await
}

/// Reports that a run has taken these units, with the fence of its lease.
async fn settle(world: &World, run: &Run, actual: u32) -> Result<(), String> {
    let what = Sent::Settle { pool: "api".to_owned(), actual };
    let sends = vec![NewSend { step: "settle:api".to_owned(), what }];
    let engine = run.owner.expect("the run is leased");
    let report = Record { sends, ..Record::new(run.id.seq, engine, run.fence, Then::Continue) };
    let answer = world.run(Command::Record { known: Box::new(run.clone()), report }).await;
    answer.map(drop).map_err(|refusal| refusal.code().to_owned())
}

/// Returns when a run with this cost would start.
async fn turn(world: &World, n: u32) -> Timestamp {
    let run = world.send_for_run("ask", json!({ "n": n })).await;
    let turn = tidegate_store::why(&*world.store, &world.ws, run).await.unwrap().unwrap();
    world.cancel(run).await.expect("it waits");
    turn.earliest.unwrap_or(world.now())
}

async fn row(world: &World, run: RunId) -> Option<Value> {
    let step = world.step_of(run, "settle:api").await?;
    assert_eq!(step.kind, StepKind::Settle);
    Some(match step.result {
        Ok(value) => serde_json::from_str(value.as_str()).unwrap(),
        Err(error) => json!(error.code),
    })
}

/// spec L10: units that were not taken are given back at once, further ones are spent at once.
pub async fn the_difference_is_given_back_or_spent(world: &World) {
    metered(world).await;
    let run = started(world, 8).await;
    assert_eq!(turn(world, 5).await, world.now().plus_ms(3000), "2 units are left");
    settle(world, &run, 3).await.unwrap();
    assert_eq!(row(world, run.id).await, Some(json!(8)), "the answer has the reserved units");
    assert_eq!(turn(world, 7).await, world.now(), "7 units are left");
    assert_eq!(turn(world, 8).await, world.now().plus_ms(1000));
    let more = started(world, 1).await;
    settle(world, &more, 20).await.unwrap();
    // 3 and 20 units were taken of a burst of 10.
    assert_eq!(turn(world, 1).await, world.now().plus_ms(14_000));
    world.check_holds().await;
}

/// spec L10: units that are given back admit the queue in the same transaction.
pub async fn what_is_given_back_serves_the_queue(world: &World) {
    metered(world).await;
    let run = started(world, 10).await;
    let waiting = world.send_for_run("ask", json!({ "n": 4 })).await;
    assert!(world.lease_all().await.is_empty());
    settle(world, &run, 6).await.unwrap();
    assert_eq!(world.lease_one().await.id, waiting);
}

/// spec L10: a reservation is settled once, under the fence; a worker that has lost its lease
/// settles nothing, and a reservation that is not settled stands.
pub async fn a_reservation_is_settled_once_under_the_fence(world: &World) {
    metered(world).await;
    let run = started(world, 10).await;
    settle(world, &run, 5).await.unwrap();
    settle(world, &run, 0).await.unwrap();
    assert_eq!(turn(world, 6).await, world.now().plus_ms(1000), "the second report has no effect");
    world.complete(&run).await;
    let lost = started(world, 5).await;
    world.lose(lost.owner.unwrap()).await;
    assert_eq!(settle(world, &lost, 0).await, Err("fenced".to_owned()));
    assert_eq!(turn(world, 1).await, world.now().plus_ms(1000), "the reservation stands");
}

/// spec L10: a run without a reservation, or with two, is told so.
pub async fn an_ambiguous_settlement_is_an_error(world: &World) {
    metered(world).await;
    world.define(json!({ "name": "plain" })).await;
    let run = world.send_for_run("plain", json!({})).await;
    settle(world, &world.lease_one().await, 1).await.unwrap();
    assert_eq!(row(world, run).await, Some(json!("NoReservation")));
    let uses = json!([{ "pool": "api", "key": "a" }, { "pool": "api", "key": "b" }]);
    world.define(json!({ "name": "two", "throttle": uses })).await;
    let run = world.send_for_run("two", json!({ "a": 1, "b": 2 })).await;
    let leased = world.lease_all().await.into_iter().find(|it| it.id == run).unwrap();
    settle(world, &leased, 1).await.unwrap();
    assert_eq!(row(world, run).await, Some(json!("AmbiguousReservation")));
}

/// spec L10: a run that is replayed from a step reserves and settles anew; the record is not copied.
pub async fn a_replay_settles_its_own_reservation(world: &World) {
    metered(world).await;
    let run = started(world, 4).await;
    settle(world, &run, 2).await.unwrap();
    let done = vec![crate::world::step("after", &json!(1))];
    world.report(&run, done, Then::Continue).await.unwrap();
    world.fail(&run).await;
    let (ws, from_step) = (world.ws.clone(), Some("after".to_owned()));
    let replay = Command::Replay { ws, run: run.id, input: None, from_step, function_key: None };
    world.run(replay).await.unwrap();
    let again = world.lease_one().await;
    assert_eq!(row(world, again.id).await, None);
    settle(world, &again, 4).await.unwrap();
    assert_eq!(row(world, again.id).await, Some(json!(4)));
}

/// spec L10: a settlement after the meter was full again, and its row deleted, gives nothing back
/// twice, and counts further units.
pub async fn a_late_settlement_counts_only_what_is_more(world: &World) {
    metered(world).await;
    let run = started(world, 2).await;
    world.tick(100_000).await;
    let meter = async || {
        let rows = world.dump().await;
        let is_it = |key: &GateKey| key.class() == Some(Class::PoolThrottle);
        rows.into_iter().any(|row| {
            matches!(row, Row::Gate(gate)
            if is_it(&gate.key) && matches!(gate.state, GateState::Turns(_)))
        })
    };
    assert!(!meter().await, "the row of a full meter is deleted");
    settle(world, &run, 0).await.unwrap();
    assert!(!meter().await);
    let run = started(world, 2).await;
    world.tick(100_000).await;
    settle(world, &run, 5).await.unwrap();
    assert_eq!(turn(world, 8).await, world.now().plus_ms(1000), "3 further units");
}
