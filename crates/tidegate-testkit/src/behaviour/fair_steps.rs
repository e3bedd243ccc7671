//! Fair pools that single steps pass: a step waits for the turn of its value.

use serde_json::{Value, json};
use tidegate_core::{
    flow::step_pool::{PoolAnswer, PoolAsk},
    id::RunId,
    row::{Phase, Run},
    run::record::Then,
};

use super::fair::{healthy, shares, tenant};
use crate::world::{
    World, payload,
    pools::{fair, whole},
    step,
};

/// Declares the pool `gpu` with these settings of `fair`, the workflow `chat` whose steps pass it,
/// and the workflow `work` whose runs use it.
async fn declare(world: &World, settings: Value) {
    let limit = json!({ "limit": 1, "fair": settings });
    world.put_pool(json!({ "name": "gpu", "concurrency": limit })).await;
    world.define(json!({ "name": "chat" })).await;
    world.define(json!({ "name": "work", "concurrency": { "pool": "gpu" } })).await;
}

async fn start(world: &World, tenant: &str) -> Run {
    let run = world.send_for_run("chat", json!({ "tenant": tenant })).await;
    let leased = world.lease_all().await;
    leased.into_iter().find(|it| it.id == run).expect("the run is ready")
}

/// Starts a run whose step parks for these pools.
async fn parked(world: &World, tenant: &str, asks: &[PoolAsk]) -> RunId {
    let run = start(world, tenant).await;
    assert_eq!(world.enter(&run, "ask", asks).await, PoolAnswer::Waits);
    world.park(&run, "ask", asks).await;
    healthy(world).await;
    run.id
}

/// Starts runs whose steps wait for the turns of these tenants, one for each letter; `-` is a step
/// without a value.
async fn park_all(world: &World, tenants: &str) -> Vec<RunId> {
    let mut runs = Vec::new();
    for tenant in tenants.chars().map(String::from) {
        let ask = if tenant == "-" { whole("gpu", 1) } else { fair("gpu", &tenant, 1) };
        runs.push(parked(world, &tenant, &[ask]).await);
    }
    runs
}

async fn finish(world: &World, run: &Run) {
    let done = Then::Complete(payload(&json!("done")));
    let steps = if run.in_pools.is_empty() { vec![] } else { vec![step("ask", &json!(1))] };
    world.report(run, steps, done).await.unwrap();
    healthy(world).await;
}

/// Ends the run, and then all others one after another. Returns their tenants, in the order in which
/// they got their places.
async fn order_after(world: &World, first: &Run) -> String {
    finish(world, first).await;
    let mut order = String::new();
    loop {
        let leased = world.lease_all().await;
        let Some(run) = leased.first() else { return order };
        assert_eq!(leased.len(), 1, "two runs are inside");
        order.push_str(&tenant(world, run).await);
        finish(world, run).await;
    }
}

async fn holder(world: &World) -> Run {
    let run = start(world, "x").await;
    let entered = world.enter(&run, "ask", &[fair("gpu", "x", 1)]).await;
    assert_eq!(entered, PoolAnswer::Entered);
    run
}

/// spec L16, L7: steps wait for the turns of their values by weight, among the steps and runs of all
/// workflows. Inside a value rank decides.
pub async fn steps_take_turns_by_weight(world: &World) {
    declare(world, json!({ "by": "tenant", "weights": { "a": 2 } })).await;
    let first = holder(world).await;
    park_all(world, "aaaab").await;
    for tenant in ["b", "g"] {
        let queued = world.send("work", json!({ "tenant": tenant })).await;
        assert_eq!(queued.outcome(), "queued");
    }
    park_all(world, "g").await;
    assert_eq!(shares(world).await, 3);
    assert_eq!(order_after(world, &first).await, "aabgaabg");
    assert_eq!(shares(world).await, 0);
    world.check_holds().await;
}

/// spec L17: a tenant whose steps wait in great number delays a value that comes later by one
/// service. Before, steps were served by rank before all values.
pub async fn many_steps_of_one_tenant_delay_nobody_else(world: &World) {
    declare(world, json!({ "by": "tenant" })).await;
    let first = holder(world).await;
    park_all(world, &"h".repeat(30)).await;
    park_all(world, "abc").await;
    world.send("work", json!({ "tenant": "d" })).await;
    let order = order_after(world, &first).await;
    assert_eq!(&order[..5], "habcd");
    assert_eq!(order.len(), 34);
    world.check_holds().await;
}

/// spec L16: steps without a value and runs without it are one value together.
pub async fn steps_without_a_value_are_one_value(world: &World) {
    declare(world, json!({ "by": "tenant" })).await;
    let first = holder(world).await;
    park_all(world, "---").await;
    world.send("work", json!({})).await;
    park_all(world, "ab").await;
    assert_eq!(shares(world).await, 3);
    assert_eq!(order_after(world, &first).await, "-ab---");
    world.check_holds().await;
}

/// spec L18: `why` of a run that waits for its step names the turn of the step's value.
pub async fn why_says_the_turn_of_a_step(world: &World) {
    declare(world, json!({ "by": "tenant", "weights": { "b": 2 } })).await;
    let first = holder(world).await;
    let runs = park_all(world, "aab").await;
    let why = world.why(runs[1]).await;
    let standing = why.gates.iter().find_map(|gate| gate.fair.clone()).expect("it is fair");
    assert_eq!((standing.place, standing.weight, standing.of), (Some(2), 1, 3));
    assert!(why.sentence.contains("2nd of a (weight 1 of 3)"), "{}", why.sentence);
    assert!(why.sentence.contains("its step `ask`"), "{}", why.sentence);
    assert_eq!(order_after(world, &first).await, "baa");
}

/// spec L16, L8: a value pays for what its steps take.
pub async fn steps_pay_for_their_units(world: &World) {
    let limit = json!({ "limit": 2, "fair": { "by": "tenant" } });
    world.put_pool(json!({ "name": "gpu", "concurrency": limit })).await;
    world.define(json!({ "name": "chat" })).await;
    let first = start(world, "x").await;
    let all = world.enter(&first, "ask", &[fair("gpu", "x", 2)]).await;
    assert_eq!(all, PoolAnswer::Entered);
    for (tenant, cost) in [("a", 2), ("a", 2), ("b", 1), ("b", 1), ("b", 1), ("b", 1)] {
        parked(world, tenant, &[fair("gpu", tenant, cost)]).await;
    }
    finish(world, &first).await;
    let mut order = String::new();
    while let Some(run) = world.lease(1).await.pop() {
        order.push_str(&tenant(world, &run).await);
        finish(world, &run).await;
    }
    assert_eq!(order, "babbab", "tags a 2, 4 and b 1 to 4");
    world.check_holds().await;
}

/// spec L16, M1: at a fair throttle the attempts of steps take turns, and keep their distance.
pub async fn steps_take_turns_at_a_throttle(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "fair": { "by": "tenant" } });
    world.put_pool(json!({ "name": "gpu", "throttle": throttle })).await;
    world.define(json!({ "name": "chat" })).await;
    let first = holder(world).await;
    park_all(world, "aaabb").await;
    finish(world, &first).await;
    let mut order = String::new();
    for _ in 0..5 {
        assert!(world.lease_all().await.is_empty(), "two attempts at once");
        world.tick(1000).await;
        let run = world.lease_one().await;
        order.push_str(&tenant(world, &run).await);
        finish(world, &run).await;
    }
    assert_eq!(order, "ababa");
    world.check_holds().await;
}

/// spec L5, L16: a gate that the run itself uses keeps the value of the run.
pub async fn a_run_keeps_its_value_at_its_own_gate(world: &World) {
    let limit = json!({ "limit": 2, "fair": { "by": "tenant" } });
    world.put_pool(json!({ "name": "gpu", "concurrency": limit })).await;
    world.define(json!({ "name": "work", "concurrency": { "pool": "gpu" } })).await;
    let mut runs = Vec::new();
    for tenant in ["a", "x"] {
        runs.push(world.send_for_run("work", json!({ "tenant": tenant })).await);
    }
    let leased = world.lease_all().await;
    let ask = [fair("gpu", "b", 1)];
    assert_eq!(world.enter(&leased[0], "ask", &ask).await, PoolAnswer::Waits);
    world.park(&leased[0], "ask", &ask).await;
    let own = world.live(leased[0].id).await.unwrap();
    assert!(matches!(own.phase, Phase::Queued { .. }));
    let share = own.plan[own.entered].share.as_ref().expect("the gate is fair");
    assert_eq!(share.value.to_string(), "a");
    assert_eq!((shares(world).await, own.plan[own.entered].costs.one()), (1, 2));
    finish(world, &leased[1]).await;
    let own = world.lease_one().await;
    finish(world, &own).await;
    world.check_holds().await;
}

/// spec L16, G2: a step that waits gives up its value's turn when its run is cancelled, and when a
/// change of the pool removes `fair`, waits by rank.
pub async fn a_step_leaves_a_fair_queue(world: &World) {
    declare(world, json!({ "by": "tenant" })).await;
    let first = holder(world).await;
    let runs = park_all(world, "abaab").await;
    world.cancel(runs[0]).await.unwrap();
    healthy(world).await;
    world.put_pool(json!({ "name": "gpu", "concurrency": { "limit": 1 } })).await;
    assert_eq!(order_after(world, &first).await, "baab");
    assert_eq!(shares(world).await, 0);
    let first = holder(world).await;
    park_all(world, "aab").await;
    declare(world, json!({ "by": "tenant" })).await;
    park_all(world, "ab").await;
    assert_eq!(order_after(world, &first).await, "aabab", "those of before `fair` go first");
    world.check_holds().await;
}
