//! Pools that a single step passes: places, and their ends.

use serde_json::{Value, json};
use tidegate_core::{
    command::Refusal,
    flow::step_pool::{MAX_POOLS_OF_STEP, PoolAnswer},
    row::{Run, RunError},
    run::record::{NewAsk, NewWait, NewWaitOn, Recorded, Then, Until},
};

use crate::world::{
    World,
    pools::{keyed, whole},
    step,
};

/// Declares the pool `gpu` with this limit, and a workflow without controls.
async fn shared(world: &World, concurrency: Value) {
    world.put_pool(json!({ "name": "gpu", "concurrency": concurrency })).await;
    world.define(json!({ "name": "chat" })).await;
}

/// Starts a run of `chat`.
async fn chat(world: &World) -> Run {
    world.send_for_run("chat", json!({})).await;
    world.lease_one().await
}

async fn inside(world: &World) -> u64 {
    world.units_in("gpu").await
}

fn refused(answer: PoolAnswer) -> RunError {
    let PoolAnswer::Refused(error) = answer else { panic!("{answer:?}") };
    error
}

/// spec L7: where there is room and nobody waits, a step takes its place in the commit that asks,
/// and gives it back in the commit that records it.
pub async fn room_is_taken_in_the_commit_that_asks(world: &World) {
    shared(world, json!({ "limit": 5 })).await;
    let run = chat(world).await;
    assert_eq!(world.enter(&run, "ask", &[whole("gpu", 3)]).await, PoolAnswer::Entered);
    assert_eq!(inside(world).await, 3);
    let row = world.live(run.id).await.unwrap();
    assert_eq!((row.in_pools, row.plan.len(), row.entered), (vec!["ask".to_owned()], 1, 1));
    world.check_holds().await;
    let done = world.report(&run, vec![step("ask", &json!(1))], Then::Continue).await;
    assert_eq!(done, Ok(Recorded::GoOn));
    assert_eq!(inside(world).await, 0, "the place ends with the record of the step");
    assert!(world.live(run.id).await.unwrap().plan.is_empty());
    world.complete(&run).await;
}

/// spec L7: a worker that repeats a report, because it got no answer, takes nothing twice.
pub async fn a_repeated_report_takes_one_place(world: &World) {
    let rate = json!({ "limit": 1, "perMs": 1000, "burst": 2 });
    let pool = json!({ "name": "gpu", "concurrency": { "limit": 9 }, "throttle": rate });
    world.put_pool(pool).await;
    world.define(json!({ "name": "chat" })).await;
    let run = chat(world).await;
    for _ in 0..3 {
        assert_eq!(world.enter(&run, "ask", &[whole("gpu", 1)]).await, PoolAnswer::Entered);
    }
    assert_eq!(inside(world).await, 1);
    assert_eq!(world.enter(&run, "next", &[whole("gpu", 1)]).await, PoolAnswer::Entered);
    assert_eq!(world.enter(&run, "last", &[whole("gpu", 1)]).await, PoolAnswer::Waits);
    world.check_holds().await;
}

/// spec L7, L4: the gates of a step are those that workflows use. A workflow with the key in its
/// data, another one, and a step with the key meet on one limit.
pub async fn workflows_and_a_step_meet_on_one_pool(world: &World) {
    let limit = json!({ "limit": 2, "key": "customer" });
    world.put_pool(json!({ "name": "crm", "concurrency": limit })).await;
    world.define(json!({ "name": "chat" })).await;
    world.define(json!({ "name": "sync", "concurrency": { "pool": "crm" } })).await;
    let bill = json!([{ "pool": "crm", "key": "account" }]);
    world.define(json!({ "name": "bill", "concurrency": bill })).await;
    let run = chat(world).await;
    let acme = [keyed("crm", "acme", 1)];
    world.send_for_run("sync", json!({ "customer": "acme" })).await;
    let sync = world.lease_one().await;
    assert_eq!(world.enter(&run, "ask", &acme).await, PoolAnswer::Entered);
    let queued = world.send_for_run("bill", json!({ "account": "acme" })).await;
    assert!(world.lease_all().await.is_empty(), "a run passed the place of a step");
    let other = world.enter(&run, "other", &[keyed("crm", "umbrella", 2)]).await;
    assert_eq!(other, PoolAnswer::Entered, "another key has a limit of its own");
    world.leave(&run, "ask").await;
    let bill = world.lease_one().await;
    assert_eq!(bill.id, queued, "the place is handed on in the commit that gives it back");
    assert_eq!(world.enter(&run, "again", &acme).await, PoolAnswer::Waits);
    world.complete(&sync).await;
    assert_eq!(world.enter(&run, "more", &acme).await, PoolAnswer::Entered);
    world.check_holds().await;
}

/// spec L7, L8: a step waits where others wait, also if there is room for it.
pub async fn a_step_does_not_pass_the_queue(world: &World) {
    shared(world, json!({ "limit": 5 })).await;
    world.define(json!({ "name": "big", "concurrency": [{ "pool": "gpu", "cost": 4 }] })).await;
    let run = chat(world).await;
    assert_eq!(world.enter(&run, "a", &[whole("gpu", 2)]).await, PoolAnswer::Entered);
    let big = world.send_for_run("big", json!({})).await;
    assert!(world.lease_all().await.is_empty());
    assert_eq!(world.enter(&run, "b", &[whole("gpu", 1)]).await, PoolAnswer::Waits);
    world.leave(&run, "a").await;
    assert_eq!(world.lease_one().await.id, big);
    assert_eq!(world.enter(&run, "b", &[whole("gpu", 1)]).await, PoolAnswer::Entered);
    assert_eq!(inside(world).await, 5);
}

/// spec L7, L5: steps of one run take places of their own; of the run and its steps the gate has
/// one hold, of summed cost.
pub async fn parallel_steps_take_a_place_each(world: &World) {
    world.put_pool(json!({ "name": "gpu", "concurrency": { "limit": 4 } })).await;
    world.define(json!({ "name": "chat", "concurrency": [{ "pool": "gpu" }] })).await;
    let run = chat(world).await;
    assert_eq!(inside(world).await, 1, "the run's own");
    for (step, answer) in
        [("a", PoolAnswer::Entered), ("b", PoolAnswer::Entered), ("c", PoolAnswer::Waits)]
    {
        let cost = if step == "c" { 1 } else { 2 - u32::from(step == "b") };
        assert_eq!(world.enter(&run, step, &[whole("gpu", cost)]).await, answer);
        world.check_holds().await;
    }
    assert_eq!(inside(world).await, 4);
    let ask = NewAsk { step: "c".to_owned(), pools: vec![whole("gpu", 1)] };
    let answer = world.ask_with(&run, vec![step("a", &json!(1))], &[], vec![ask]).await;
    let entered = vec![("c".to_owned(), PoolAnswer::Entered)];
    assert_eq!(answer, Ok(Recorded::Asked(entered)), "the place of `a` is free in this commit");
    assert_eq!(inside(world).await, 3);
    world.leave(&run, "b").await;
    world.leave(&run, "c").await;
    assert_eq!(inside(world).await, 1);
    world.check_holds().await;
    world.complete(&run).await;
    assert_eq!(inside(world).await, 0);
}

/// spec L7: a retry gives the place back and takes it again; so does a step that is handed over.
pub async fn a_retry_frees_and_takes_again(world: &World) {
    shared(world, json!({ "limit": 1 })).await;
    let run = chat(world).await;
    let gpu = [whole("gpu", 1)];
    assert_eq!(world.enter(&run, "ask", &gpu).await, PoolAnswer::Entered);
    let until = Some(Until::In(1000));
    let retry = NewWait { step: "ask".to_owned(), on: NewWaitOn::Retry { attempt: 1 }, until };
    world.report(&run, Vec::new(), Then::Suspend(vec![retry])).await.unwrap();
    assert_eq!(inside(world).await, 0, "a step that backs off has no place");
    world.check_holds().await;
    let other = chat(world).await;
    assert_eq!(world.enter(&other, "ask", &gpu).await, PoolAnswer::Entered);
    world.tick(1000).await;
    let run = world.lease_one().await;
    assert_eq!(run.failures["ask"], 1);
    assert_eq!(world.enter(&run, "ask", &gpu).await, PoolAnswer::Waits);
    world.report(&other, Vec::new(), Then::Yield).await.unwrap();
    assert_eq!(world.enter(&run, "ask", &gpu).await, PoolAnswer::Entered, "`Yield` gives it back");
    let other = world.lease_one().await;
    assert!(other.in_pools.is_empty() && other.plan.is_empty());
    world.check_holds().await;
}

/// spec L7, G6: the place of a step returns with the lease of a dead engine, and a worker that has
/// lost its lease takes none.
pub async fn the_death_of_an_engine_frees_the_place(world: &World) {
    shared(world, json!({ "limit": 1 })).await;
    world.define(json!({ "name": "user", "concurrency": [{ "pool": "gpu" }] })).await;
    let run = chat(world).await;
    let gpu = [whole("gpu", 1)];
    assert_eq!(world.enter(&run, "ask", &gpu).await, PoolAnswer::Entered);
    let queued = world.send_for_run("user", json!({})).await;
    assert_eq!(world.lose(run.owner.unwrap()).await, 1);
    let other = world.engine(2);
    let leased = other.lease_all().await;
    let user = leased.iter().find(|it| it.id == queued).expect("the place was handed on");
    let again = leased.iter().find(|it| it.id == run.id).expect("the run was taken over");
    let ask = NewAsk { step: "ask".to_owned(), pools: gpu.to_vec() };
    let stale = world.ask_with(&run, Vec::new(), &[], vec![ask]).await;
    assert!(matches!(stale, Err(Refusal::Fenced { .. })), "{stale:?}");
    assert_eq!(other.enter(again, "ask", &gpu).await, PoolAnswer::Waits);
    other.complete(user).await;
    assert_eq!(other.enter(again, "ask", &gpu).await, PoolAnswer::Entered);
    other.complete(again).await;
    assert_eq!(inside(world).await, 0, "the end of the run ends the place");
    world.check_holds().await;
}

/// spec L7, G7: the place of a cancelled run is free when its worker has confirmed the stop.
pub async fn a_cancelled_run_keeps_the_place_until_it_has_stopped(world: &World) {
    shared(world, json!({ "limit": 1 })).await;
    let (run, other) = (chat(world).await, chat(world).await);
    let gpu = [whole("gpu", 1)];
    assert_eq!(world.enter(&run, "ask", &gpu).await, PoolAnswer::Entered);
    world.cancel(run.id).await.unwrap();
    assert_eq!(world.enter(&other, "ask", &gpu).await, PoolAnswer::Waits);
    world.stopped(&run).await;
    assert_eq!(world.enter(&other, "ask", &gpu).await, PoolAnswer::Entered);
    world.check_holds().await;
}

/// spec L7, L9, M1: each attempt spends the throttle of the pool, beside the first starts of
/// workflows that use it.
pub async fn each_attempt_spends_the_throttle(world: &World) {
    let rate = json!({ "limit": 1, "perMs": 1000, "burst": 3 });
    world.put_pool(json!({ "name": "api", "throttle": rate })).await;
    world.define(json!({ "name": "chat" })).await;
    world.define(json!({ "name": "user", "throttle": [{ "pool": "api" }] })).await;
    let run = chat(world).await;
    let api = [whole("api", 1)];
    for _ in 0..2 {
        assert_eq!(world.enter(&run, "ask", &api).await, PoolAnswer::Entered);
        world.leave(&run, "ask").await;
    }
    world.send_for_run("user", json!({})).await;
    world.lease_one().await;
    assert_eq!(world.enter(&run, "ask", &api).await, PoolAnswer::Waits, "three units are spent");
    world.pass(999);
    assert_eq!(world.enter(&run, "ask", &api).await, PoolAnswer::Waits);
    world.pass(1);
    assert_eq!(world.enter(&run, "ask", &api).await, PoolAnswer::Entered);
    assert_eq!(world.enter(&run, "big", &[whole("api", 9)]).await, PoolAnswer::Waits, "in debt");
    world.pass(3000);
    assert_eq!(world.enter(&run, "big", &[whole("api", 9)]).await, PoolAnswer::Entered);
    world.pass(6999);
    assert_eq!(world.enter(&run, "last", &api).await, PoolAnswer::Waits);
    world.pass(1);
    assert_eq!(world.enter(&run, "last", &api).await, PoolAnswer::Entered);
    world.check_holds().await;
}

/// spec L7: a rate limit fails the attempt until `retryAt`, which uses up no attempt of the step.
pub async fn a_rate_limit_uses_up_no_attempt(world: &World) {
    let rate = json!({ "limit": 2, "perMs": 10_000, "burst": 1 });
    world.put_pool(json!({ "name": "api", "rateLimit": rate })).await;
    world.define(json!({ "name": "chat" })).await;
    let (run, api) = (chat(world).await, [whole("api", 1)]);
    assert_eq!(world.enter(&run, "ask", &api).await, PoolAnswer::Entered);
    world.pass(1000);
    let again = chat(world).await;
    assert_eq!(world.enter(&again, "ask", &api).await, PoolAnswer::Waits);
    world.park(&again, "ask", &api).await;
    assert_eq!(world.state(again.id).await, "waiting");
    let why = world.why(again.id).await;
    let until = world.now().plus_ms(4000).rfc3339();
    let sentence = format!("step `ask` waits for rateLimit of pool `api` until {until}");
    assert_eq!(why.sentence, sentence);
    world.tick(3999).await;
    assert!(world.lease_all().await.is_empty());
    world.tick(1).await;
    let again = world.lease_one().await;
    assert!(again.failures.is_empty(), "the wait counted as a failed attempt");
    assert_eq!(world.enter(&again, "ask", &api).await, PoolAnswer::Entered);
    world.check_holds().await;
}

/// spec L7: a cost above a limit, an unknown pool, a pool with span `run` and a missing key fail the
/// step with all of its problems. Nothing is taken.
pub async fn what_never_fits_fails_the_step(world: &World) {
    let rate = json!({ "limit": 3, "perMs": 1000 });
    let pool = json!({ "name": "gpu", "concurrency": { "limit": 5 }, "rateLimit": rate });
    world.put_pool(pool).await;
    let span = json!({ "limit": 5, "span": "run" });
    world.put_pool(json!({ "name": "seats", "concurrency": span })).await;
    let key = json!({ "limit": 5, "key": "customer" });
    world.put_pool(json!({ "name": "crm", "concurrency": key })).await;
    world.define(json!({ "name": "chat", "concurrency": [{ "pool": "gpu", "cost": 2 }] })).await;
    let run = chat(world).await;
    let error = async |asks: &[_]| refused(world.enter(&run, "ask", asks).await);
    let said = error(&[whole("gpu", 7)]).await;
    assert_eq!(said.code, "CostExceedsLimit");
    assert_eq!(
        said.message,
        "step `ask`: cost 7 and the run's own 2 exceeds limit 5 of pool `gpu`; cost 7 exceeds the \
         burst 3 of rateLimit of pool `gpu`"
    );
    let said = error(&[whole("gpus", 1), whole("seats", 1), whole("crm", 1)]).await;
    assert_eq!(said.code, "UnknownPool");
    assert_eq!(
        said.message,
        "step `ask`: pool `gpus` does not exist: did you mean `gpu`?; pool `seats` holds its \
         concurrency until the end of a run (`span: run`): a step passes only pools with `span: \
         executing`; concurrency of pool `crm` has the key `customer`: give the step a key"
    );
    assert_eq!(error(&[whole("seats", 1)]).await.code, "PoolSpan");
    assert_eq!(error(&[whole("crm", 1)]).await.code, "PoolKey");
    assert_eq!(error(&[whole("gpu", 0)]).await.code, "BadCost");
    let many = vec![whole("gpu", 1); MAX_POOLS_OF_STEP + 1];
    assert_eq!(error(&many).await.code, "TooManyPools");
    let two = error(&[whole("gpu", 2), whole("gpu", 2)]).await.message;
    assert!(two.starts_with("step `ask`: cost 4 and the run's own 2 exceeds"), "{two}");
    assert_eq!(inside(world).await, 2, "a refused step has taken a place");
    for step in ["a", "b", "c"] {
        assert_eq!(world.enter(&run, step, &[whole("gpu", 1)]).await, PoolAnswer::Entered);
    }
    world.check_holds().await;
}
