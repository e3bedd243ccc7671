//! Limits that follow the outcomes of calls (spec L28).

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    flow::adaptive::{AdaptiveLimit, NewOverload},
    id::RunId,
    observe::gates::{self, GateFilter, GateView},
    row::{GateState, Row, Run},
    run::record::{Record, Recorded, Then},
};
use tidegate_store::look;

use super::overrides::{change, remove, set};
use crate::world::{World, payload, pools::whole, step};

/// Time after which a refused step is tried again: later than the end of every story.
const LATER: u64 = 1_000_000;

/// Defines the workflow `ask` with an adaptive limit.
async fn defined(world: &World, limit: u32, adaptive: Value) {
    let concurrency = json!({ "limit": limit, "adaptive": adaptive });
    world.define(json!({ "name": "ask", "concurrency": concurrency })).await;
}

async fn sent(world: &World, name: &str, count: usize) -> Vec<RunId> {
    let mut runs = Vec::new();
    for n in 0..count {
        runs.push(world.send_for_run(name, json!({ "k": "a", "n": n })).await);
    }
    runs
}

/// Starts a run, and leases it.
async fn begun(world: &World, name: &str) -> Run {
    world.send_for_run(name, json!({ "k": "a" })).await;
    world.lease_one().await
}

async fn report(world: &World, run: &Run, report: Record) -> Result<Recorded, Refusal> {
    match world.run(Command::Record { known: Box::new(run.clone()), report }).await? {
        Answer::Recorded(recorded) => Ok(recorded),
        other => panic!("unexpected answer to a report: {other:?}"),
    }
}

fn record(run: &Run, then: Then) -> Record {
    Record::new(run.id.seq, run.owner.expect("the run is leased"), run.fence, then)
}

/// Reports that a step of a run has met an overload; the run waits for the next attempt.
async fn refused(world: &World, run: &Run, pool: Option<&str>) {
    world.overload(run, "call", pool, LATER).await;
}

/// Reports that the call of a run has succeeded, and the end of the run.
async fn succeeded(world: &World, run: &Run) {
    let then = Then::Complete(payload(&json!(null)));
    let recorded = world.report(run, vec![step("call", &json!(1))], then).await;
    assert_eq!(recorded, Ok(Recorded::LetGo));
}

async fn views(world: &World) -> Vec<GateView> {
    let which = GateFilter { control: Some("concurrency".to_owned()), ..GateFilter::default() };
    let page =
        look(&*world.store, &world.ws, |draft| gates::list(draft, &world.ws, &which, None, 10));
    page.await.expect("a query").gates
}

/// Returns the value of the only adaptive limit that has a row.
async fn shown(world: &World) -> AdaptiveLimit {
    let all: Vec<_> = views(world).await.into_iter().filter_map(|gate| gate.adaptive).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

/// Returns the value of the only adaptive limit, and its number of successes.
async fn value(world: &World) -> (u32, u32) {
    let AdaptiveLimit { limit, successes, .. } = shown(world).await;
    (limit, successes)
}

async fn ready(world: &World) -> Vec<Run> {
    world.lease_all().await
}

/// spec L28: an overload halves the limit in the transaction of the report. It evicts no run, and
/// no run enters before the holders are fewer than the new limit.
pub async fn an_overload_halves_the_limit_and_evicts_nobody(world: &World) {
    defined(world, 4, json!({ "min": 1, "max": 8 })).await;
    let runs = sent(world, "ask", 6).await;
    let inside = ready(world).await;
    assert_eq!(inside.len(), 4);
    refused(world, &inside[0], None).await;
    assert_eq!(value(world).await, (2, 0));
    assert!(ready(world).await.is_empty(), "three are inside of a limit of two");
    world.check_holds().await;
    world.complete(&inside[1]).await;
    assert!(ready(world).await.is_empty(), "two are inside of a limit of two");
    world.complete(&inside[2]).await;
    let next: Vec<RunId> = ready(world).await.iter().map(|run| run.id).collect();
    assert_eq!(next, [runs[4]], "the queue is served in the transaction of the report");
    world.check_holds().await;
}

/// spec L28: after as many successes as the limit, it grows by one, and the queue is served in the
/// same transaction. It never exceeds the maximum.
pub async fn as_many_successes_as_the_limit_raise_it(world: &World) {
    defined(world, 2, json!({ "min": 1, "max": 3 })).await;
    let runs = sent(world, "ask", 7).await;
    let inside = ready(world).await;
    succeeded(world, &inside[0]).await;
    assert_eq!(value(world).await, (2, 1));
    let third = ready(world).await;
    assert_eq!(third.len(), 1);
    succeeded(world, &inside[1]).await;
    assert_eq!(value(world).await, (3, 0));
    let next: Vec<Run> = ready(world).await;
    assert_eq!(next.iter().map(|run| run.id).collect::<Vec<_>>(), runs[3..5]);
    succeeded(world, &third[0]).await;
    for run in &next {
        succeeded(world, run).await;
    }
    assert_eq!(value(world).await, (3, 0), "at the maximum nothing is counted");
    assert_eq!(ready(world).await.len(), 2);
    world.check_holds().await;
}

/// spec L28: signals of calls that began before the last change of the limit are ignored.
pub async fn signals_of_earlier_calls_are_ignored(world: &World) {
    defined(world, 4, json!({ "min": 1, "max": 8, "cooldownMs": 1 })).await;
    sent(world, "ask", 4).await;
    let inside = ready(world).await;
    refused(world, &inside[0], None).await;
    world.tick(10).await;
    refused(world, &inside[1], None).await;
    succeeded(world, &inside[2]).await;
    succeeded(world, &inside[3]).await;
    assert_eq!(value(world).await, (2, 0), "all of them began before the limit was halved");
    let (first, second) = (begun(world, "ask").await, begun(world, "ask").await);
    succeeded(world, &first).await;
    assert_eq!(value(world).await, (2, 1));
    succeeded(world, &second).await;
    assert_eq!(value(world).await, (3, 0));
    let late = begun(world, "ask").await;
    world.tick(10).await;
    refused(world, &late, None).await;
    assert_eq!(value(world).await, (1, 0), "it began after the limit had grown");
}

/// spec L28: the limit falls at most once in its cooldown, and never below the minimum.
pub async fn the_limit_falls_once_in_its_cooldown(world: &World) {
    defined(world, 9, json!({ "min": 3, "max": 9 })).await;
    let refuse = async |after: u64| {
        let run = begun(world, "ask").await;
        world.tick(after).await;
        refused(world, &run, None).await;
        value(world).await.0
    };
    assert_eq!(refuse(0).await, 4);
    assert_eq!(refuse(999).await, 4, "the cooldown is one second");
    assert_eq!(refuse(1).await, 3);
    assert_eq!(refuse(5000).await, 3, "it is the minimum");
}

/// spec L28: every key has its own value.
pub async fn every_key_adapts_by_itself(world: &World) {
    let limit = json!({ "limit": 4, "key": "k", "adaptive": { "min": 1, "max": 8 } });
    world.define(json!({ "name": "ask", "concurrency": limit })).await;
    let first = begun(world, "ask").await;
    world.send_for_run("ask", json!({ "k": "b" })).await;
    refused(world, &first, None).await;
    let all: Vec<_> = views(world).await;
    let limits: Vec<_> = all.iter().map(|gate| (gate.key.as_str(), gate.limit)).collect();
    assert_eq!(limits, [("a", Some(2)), ("b", Some(4))]);
}

/// spec L24, L28: an override caps an adaptive limit and never raises it. The limit in force is
/// halved, and does not grow while it is capped.
pub async fn an_override_caps_an_adaptive_limit(world: &World) {
    defined(world, 6, json!({ "min": 1, "max": 8, "cooldownMs": 1 })).await;
    let of = json!({ "workflow": "ask", "control": "concurrency" });
    change(world, set(of.clone(), json!({ "limit": 4 }))).await;
    let runs = sent(world, "ask", 8).await;
    let inside = ready(world).await;
    assert_eq!(inside.len(), 4);
    for run in &inside {
        succeeded(world, run).await;
    }
    let inside = ready(world).await;
    assert_eq!((value(world).await, inside.len()), ((6, 0), 4), "it does not grow unused");
    refused(world, &inside[0], None).await;
    assert_eq!(value(world).await, (2, 0), "half of four");
    for run in &inside[1..] {
        world.complete(run).await;
    }
    change(world, set(of.clone(), json!({ "limit": 50 }))).await;
    assert_eq!(views(world).await[0].limit, Some(2), "an override does not raise it");
    remove(world, of).await;
    assert_eq!(views(world).await[0].limit, Some(2));
    assert_eq!(world.state(runs[7]).await, "completed");
}

/// spec L28, L4: at a pool the outcomes of all workflows count, and a change of the pool's range
/// takes effect at once.
pub async fn a_pool_adapts_to_all_its_workflows(world: &World) {
    let pool = |max: u32| {
        let adaptive = json!({ "min": 1, "max": max, "cooldownMs": 1 });
        let limit = max.min(4);
        json!({ "name": "api", "concurrency": { "limit": limit, "adaptive": adaptive } })
    };
    world.put_pool(pool(8)).await;
    for name in ["chat", "index"] {
        world.define(json!({ "name": name, "concurrency": { "pool": "api" } })).await;
    }
    for name in ["chat", "index", "chat", "index"] {
        let run = begun(world, name).await;
        succeeded(world, &run).await;
    }
    assert_eq!(value(world).await, (5, 0));
    world.put_pool(pool(3)).await;
    assert_eq!(value(world).await, (3, 0), "the value is brought into the new range");
    let run = begun(world, "index").await;
    refused(world, &run, None).await;
    assert_eq!(value(world).await, (1, 0));
}

/// spec L28, L7: the outcome of a step that passes a pool counts there, and not at the limit of its
/// workflow; that of another step counts only at the limits that the run has entered.
pub async fn a_step_counts_at_the_pools_that_it_passes(world: &World) {
    let adaptive = json!({ "min": 1, "max": 8, "cooldownMs": 1 });
    let limit = json!({ "limit": 4, "adaptive": adaptive });
    world.put_pool(json!({ "name": "gpu", "concurrency": limit })).await;
    world.define(json!({ "name": "ask", "concurrency": limit })).await;
    let both = async || {
        let all = views(world).await.into_iter();
        let shown = all.filter_map(|gate| Some((gate.pool.is_some(), gate.adaptive?)));
        shown.map(|(pool, it)| (pool, it.limit, it.successes)).collect::<Vec<_>>()
    };
    let run = begun(world, "ask").await;
    assert_eq!(
        world.enter(&run, "call", &[whole("gpu", 1)]).await,
        tidegate_core::flow::step_pool::PoolAnswer::Entered
    );
    let done = world.report(&run, vec![step("call", &json!(1))], Then::Continue).await;
    assert_eq!(done, Ok(Recorded::GoOn));
    assert_eq!(both().await, [(false, 4, 0), (true, 4, 1)]);
    let done = world.report(&run, vec![step("own", &json!(1))], Then::Continue).await;
    assert_eq!(done, Ok(Recorded::GoOn));
    assert_eq!(both().await, [(false, 4, 0), (true, 4, 1)], "the report writes no gate");
    world.enter(&run, "again", &[whole("gpu", 1)]).await;
    let overload = NewOverload { step: "again".to_owned(), pool: None };
    let over = vec!["again".to_owned()];
    let new = Record { overloads: vec![overload], over, ..record(&run, Then::Continue) };
    assert_eq!(report(world, &run, new).await, Ok(Recorded::GoOn));
    assert_eq!(both().await, [(false, 4, 0), (true, 2, 0)]);
    world.complete(&run).await;
    assert_eq!(both().await, [(false, 4, 1), (true, 2, 0)], "counted when the run leaves");
}

/// spec L28: an error that names a pool lowers only the limit of this pool.
pub async fn an_error_that_names_a_pool_lowers_only_that(world: &World) {
    for name in ["api", "db"] {
        let limit = json!({ "limit": 4, "adaptive": { "min": 1, "max": 8 } });
        world.put_pool(json!({ "name": name, "concurrency": limit })).await;
    }
    let uses = json!([{ "pool": "api" }, { "pool": "db" }]);
    world.define(json!({ "name": "ask", "concurrency": uses })).await;
    let run = begun(world, "ask").await;
    refused(world, &run, Some("db")).await;
    let all = views(world).await;
    let limits: Vec<_> = all.iter().map(|gate| (gate.pool.as_deref(), gate.limit)).collect();
    assert_eq!(limits, [(Some("db"), Some(2)), (Some("api"), Some(4))]);
}

/// spec L28: at a limit with the span `run`, the calls of a run begin with each lease.
pub async fn a_run_that_wakes_begins_its_calls_anew(world: &World) {
    let adaptive = json!({ "min": 1, "max": 8, "cooldownMs": 1 });
    let limit = json!({ "limit": 4, "span": "run", "adaptive": adaptive });
    world.define(json!({ "name": "ask", "concurrency": limit })).await;
    let asleep = begun(world, "ask").await;
    world.sleep(&asleep, "nap", 100).await;
    let other = begun(world, "ask").await;
    refused(world, &other, None).await;
    assert_eq!(value(world).await, (2, 0));
    world.tick(100).await;
    let awake = world.lease_one().await;
    assert_eq!(awake.id, asleep.id);
    refused(world, &awake, None).await;
    assert_eq!(value(world).await, (1, 0), "the call began after the change");
    world.check_holds().await;
}

/// spec L28: a report of a worker that has lost its lease changes nothing.
pub async fn a_late_report_changes_no_limit(world: &World) {
    defined(world, 4, json!({ "min": 1, "max": 8 })).await;
    let run = begun(world, "ask").await;
    let overload = NewOverload { step: "call".to_owned(), pool: None };
    let old = Record { fence: run.fence - 1, ..record(&run, Then::Continue) };
    let refusal = report(world, &run, Record { overloads: vec![overload], ..old }).await;
    assert!(matches!(refusal, Err(Refusal::Fenced { .. })), "{refusal:?}");
    assert_eq!(value(world).await, (4, 0));
}

/// spec L28: a worker that repeats its report, because it got no answer, gives no second signal.
pub async fn a_repeated_report_counts_once(world: &World) {
    defined(world, 4, json!({ "min": 1, "max": 8 })).await;
    let run = begun(world, "ask").await;
    for _ in 0..3 {
        let done = world.report(&run, vec![step("call", &json!(1))], Then::Continue).await;
        assert_eq!(done, Ok(Recorded::GoOn));
    }
    world.complete(&run).await;
    assert_eq!(value(world).await, (4, 1));
}

/// spec L28: a minute without a run inside or waiting forgets the value.
pub async fn an_idle_gate_forgets_its_value(world: &World) {
    defined(world, 4, json!({ "min": 1, "max": 8 })).await;
    let run = begun(world, "ask").await;
    refused(world, &run, None).await;
    world.tick(59_999).await;
    assert_eq!(value(world).await, (2, 0));
    world.tick(1).await;
    assert!(views(world).await.is_empty());
    sent(world, "ask", 5).await;
    assert_eq!(ready(world).await.len(), 4);
}

/// spec L28, L8: a cost is compared with the highest limit. A run that takes more than the limit in
/// force enters alone.
pub async fn a_cost_is_compared_with_the_highest_limit(world: &World) {
    let limit = json!({ "limit": 4, "cost": "n", "adaptive": { "min": 1, "max": 8 } });
    world.define(json!({ "name": "ask", "concurrency": limit })).await;
    let small = world.drive("ask", json!({ "n": 1 })).await;
    let large = world.send_for_run("ask", json!({ "n": 8 })).await;
    assert!(world.lease_all().await.is_empty());
    let verdict = world.send("ask", json!({ "n": 9 })).await.to_value();
    assert_eq!(verdict["error"], "cost 9 exceeds limit 8 of concurrency", "{verdict}");
    let explained = world.why(large).await;
    assert!(explained.sentence.contains("4 at once, adaptive from 1 to 8"), "{explained:?}");
    let adaptive = explained.gates[0].adaptive;
    assert_eq!(adaptive.map(|it| (it.limit, it.min, it.max)), Some((4, 1, 8)));
    world.complete(&small).await;
    assert_eq!(world.lease_one().await.id, large);
}

/// spec L28: gates and plans of fixed limits have nothing of it.
pub async fn a_fixed_limit_stores_nothing(world: &World) {
    world.define(json!({ "name": "ask", "concurrency": { "limit": 4 } })).await;
    let run = begun(world, "ask").await;
    let done = world.report(&run, vec![step("call", &json!(1))], Then::Continue).await;
    assert_eq!(done, Ok(Recorded::GoOn));
    let other = begun(world, "ask").await;
    refused(world, &other, None).await;
    for row in world.dump().await {
        match row {
            Row::Run(run) => assert!(run.plan.iter().all(|need| need.calls.is_empty()), "{run:?}"),
            Row::Gate(gate) => {
                if let GateState::Slots(slots) = gate.state {
                    assert_eq!(slots.adapted, None);
                }
            }
            _ => {}
        }
    }
}
