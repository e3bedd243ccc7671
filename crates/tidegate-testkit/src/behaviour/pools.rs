//! Pools: limits that several workflows share.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Command, Refusal},
    definition::Definition,
    flow::{Verdict, from_data::Amount},
    id::RunId,
    pool::{Pool, PoolCommand},
    row::{Class, GateKey, Row, Run},
};
use tidegate_store::why;

use crate::world::{World, event};

/// Declares the pool `gpu` with this limit, and two workflows that use it with the cost in their
/// data.
async fn shared(world: &World, concurrency: Value) {
    world.put_pool(json!({ "name": "gpu", "concurrency": concurrency })).await;
    for name in ["chat", "index"] {
        let uses = json!([{ "pool": "gpu", "cost": "units" }]);
        world.define(json!({ "name": name, "concurrency": uses })).await;
    }
}

async fn sent(world: &World, name: &str, units: u32) -> RunId {
    world.send_for_run(name, json!({ "units": units })).await
}

/// Returns the gates of a run's plan, as `class name key`.
fn planned(run: &Run) -> Vec<String> {
    let scope = |gate: &GateKey| gate.scope().expect("a gate's key");
    let gates = run.plan.iter().map(|need| scope(&need.gate));
    gates.map(|it| format!("{} {} {}", it.class as u8, it.name, it.key)).collect()
}

async fn refusal(world: &World, definition: Value) -> String {
    let workflow = Definition::parse(&definition).expect("a good definition").value;
    let Err(refusal) = world.try_register(workflow).await else { panic!("{definition}") };
    assert_eq!(refusal.code(), "bad_definition");
    refusal.to_string()
}

/// spec L4: workflows that use one pool share its holders and its queue; the costs of all of them
/// never exceed its limit, and no run passes the first in the queue, of whatever workflow.
pub async fn workflows_share_holders_and_queue(world: &World) {
    shared(world, json!({ "limit": 7 })).await;
    let mut runs = Vec::new();
    for (name, units) in [("chat", 5), ("index", 4), ("chat", 2), ("index", 1), ("chat", 3)] {
        runs.push(sent(world, name, units).await);
    }
    let first = world.lease_one().await;
    assert_eq!(first.id, runs[0], "a run passed the first in the queue");
    world.complete(&first).await;
    let inside = world.lease_all().await;
    assert_eq!(inside.iter().map(|run| run.id).collect::<Vec<_>>(), runs[1..4]);
    assert_eq!(world.inside("gpu", Class::PoolLimit, "(whole)").await, 3);
    for run in inside {
        world.complete(&run).await;
    }
    assert_eq!(world.drain().await, runs[4..]);
    world.check_holds().await;
}

/// spec L4, G1: engines that race share the limit of a pool over all of its workflows.
pub async fn engines_that_race_share_a_pool(world: &World) {
    use std::cell::Cell;
    shared(world, json!({ "limit": 7 })).await;
    let (inside, most, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let units = |run: &Run| run.plan[0].costs.one();
    let drive = async |id: u128| {
        let engine = world.engine(id);
        for n in 0..8 {
            sent(&engine, if id.is_multiple_of(2) { "chat" } else { "index" }, n % 5 + 1).await;
            for run in engine.lease(2).await {
                inside.set(inside.get() + units(&run));
                most.set(most.get().max(inside.get()));
                tokio::task::yield_now().await;
                inside.set(inside.get() - units(&run));
                engine.complete(&run).await;
                done.set(done.get() + 1);
            }
        }
    };
    tokio::join!(drive(11), drive(12), drive(13), drive(14));
    let rest = world.drain().await.len();
    assert!(most.get() <= 7, "{} units at once", most.get());
    assert_eq!(done.get() + rest, 32, "a run was driven twice or never");
    world.check_holds().await;
}

/// spec L4: the key of a use replaces the pool's own. Runs meet on the value: the path is not part
/// of the gate.
pub async fn runs_meet_on_the_value_of_their_keys(world: &World) {
    let limit = json!({ "limit": 1, "key": "customer" });
    world.put_pool(json!({ "name": "crm", "concurrency": limit })).await;
    world.define(json!({ "name": "sync", "concurrency": { "pool": "crm" } })).await;
    let own = json!([{ "pool": "crm", "key": "account.id" }]);
    world.define(json!({ "name": "bill", "concurrency": own })).await;
    world.send_for_run("sync", json!({ "customer": "acme" })).await;
    let queued = world.send("bill", json!({ "account": { "id": "acme" } })).await;
    let Verdict::Queued { run, by, .. } = queued else { panic!("{queued:?}") };
    assert_eq!(
        (by.control, by.pool.as_deref(), by.key.as_str()),
        ("concurrency", Some("crm"), "acme")
    );
    let other = world.send("bill", json!({ "account": { "id": "umbrella" } })).await;
    assert!(matches!(other, Verdict::Started { .. }), "{other:?}");
    let first = world.lease_all().await.remove(0);
    world.complete(&first).await;
    assert_eq!(world.lease_one().await.id, run);
}

/// spec L4: a throttle and a rate limit of a pool count the units of all workflows.
pub async fn workflows_share_the_meters(world: &World) {
    let throttle = json!({ "limit": 1, "perMs": 1000, "burst": 3 });
    let rate = json!([{ "limit": 4, "perMs": 60_000 }, { "limit": 100, "perMs": 86_400_000 }]);
    world.put_pool(json!({ "name": "api", "throttle": throttle, "rateLimit": rate })).await;
    for name in ["a", "b"] {
        let throttle = json!({ "pool": "api", "cost": "n" });
        let rates = json!([{ "pool": "api" }]);
        world.define(json!({ "name": name, "throttle": throttle, "rateLimit": rates })).await;
    }
    let mut verdicts = Vec::new();
    for (name, n) in [("a", 2), ("b", 1), ("a", 1), ("b", 1)] {
        verdicts.push(world.send(name, json!({ "n": n })).await);
    }
    let dropped = world.send("a", json!({ "n": 1 })).await;
    let Verdict::Dropped { by, .. } = dropped else { panic!("{dropped:?}") };
    assert_eq!(by.limiter(), "rateLimit of pool `api`");
    assert_eq!(world.lease_all().await.len(), 2, "three units start at once");
    let Verdict::Queued { by, .. } = &verdicts[2] else { panic!("{verdicts:?}") };
    assert_eq!(by.limiter(), "throttle of pool `api`");
    world.tick(1000).await;
    assert_eq!(world.lease_one().await.workflow, "a");
    world.tick(999).await;
    assert!(world.lease_all().await.is_empty());
    world.tick(1).await;
    assert_eq!(world.lease_one().await.workflow, "b");
}

/// spec G8, L4: a run gate of a pool that an ancestor holds refuses at once, at any limit.
pub async fn an_ancestor_in_the_pool_refuses_at_once(world: &World) {
    shared(world, json!({ "limit": 5, "span": "run" })).await;
    let top = sent(world, "chat", 1).await;
    let run = world.lease_one().await;
    world.invoke(&run, "ask", "index", json!({ "units": 1 })).await;
    let run = world.lease_one().await;
    assert_eq!(run.id, top);
    let fault = world.step_of(top, "ask").await.unwrap().result.unwrap_err();
    assert_eq!(fault.code, "HeldByAncestor");
    world.complete(&run).await;
    assert_eq!(world.inside("gpu", Class::PoolRunLimit, "(whole)").await, 0);
}

/// spec L5: within run gates, throttles and executing gates a run takes its own keyed gates first,
/// then keyed pools, its own whole gates and whole pools.
pub async fn gates_are_taken_in_one_order(world: &World) {
    let rate = json!({ "limit": 9, "perMs": 1000 });
    let keyed = json!({ "limit": 9, "key": "k" });
    for name in ["b", "a"] {
        let pool = json!({ "name": name, "concurrency": { "limit": 9 }, "throttle": rate });
        world.put_pool(pool).await;
    }
    world.put_pool(json!({ "name": "r", "concurrency": { "limit": 9, "span": "run" } })).await;
    let limits = json!([
        { "pool": "a" }, { "pool": "b", "key": "k" }, { "pool": "a", "key": "k" },
        { "limit": 8 }, keyed, { "pool": "r" }, { "pool": "r", "key": "k" },
        { "limit": 9, "span": "run" }, { "limit": 9, "key": "k", "span": "run" },
    ]);
    let throttles = json!([
        { "pool": "a" }, { "limit": 9, "perMs": 1000 }, { "pool": "b", "key": "k" },
        { "limit": 9, "perMs": 1000, "key": "k" },
    ]);
    world.define(json!({ "name": "w", "concurrency": limits, "throttle": throttles })).await;
    let run = world.send_for_run("w", json!({ "k": 1 })).await;
    let order = [
        "44 w 1",
        "45 r 1",
        "44 w (whole)",
        "45 r (whole)",
        "50 w 1",
        "51 b 1",
        "50 w (whole)",
        "51 a (whole)",
        "60 w 1",
        "62 a 1",
        "62 b 1",
        "61 w (whole)",
        "62 a (whole)",
    ];
    assert_eq!(planned(&world.live(run).await.unwrap()), order);
    assert_eq!(world.drain().await, [run]);
    world.check_holds().await;
}

/// spec L5: two uses of one gate are one, of summed cost.
pub async fn two_uses_of_one_gate_are_one(world: &World) {
    world.put_pool(json!({ "name": "gpu", "concurrency": { "limit": 5 } })).await;
    let uses = json!([
        { "pool": "gpu", "key": "from", "cost": 2 }, { "pool": "gpu", "key": "to", "cost": "n" },
    ]);
    world.define(json!({ "name": "move", "concurrency": uses })).await;
    let data = json!({ "from": "a", "to": "a", "n": 3 });
    world.send_for_run("move", data).await;
    let run = world.lease_one().await;
    assert_eq!(planned(&run), ["62 gpu a"]);
    assert_eq!(run.plan[0].costs.one(), 5);
    let verdict = world.send("move", json!({ "from": "b", "to": "b", "n": 4 })).await;
    let Verdict::Rejected { control, reason } = verdict else { panic!("{verdict:?}") };
    assert_eq!((control, &*reason), ("concurrency", "cost 6 exceeds limit 5 of pool `gpu`"));
    let apart = world.send_for_run("move", json!({ "from": "b", "to": "c", "n": 4 })).await;
    let apart = world.live(apart).await.unwrap();
    assert_eq!(planned(&apart), ["62 gpu b", "62 gpu c"]);
}

/// spec L5: workflows that name pools in opposite orders do not wait for each other.
pub async fn opposite_orders_do_not_deadlock(world: &World) {
    for name in ["left", "right"] {
        let limit = json!({ "limit": 1, "span": "run" });
        world.put_pool(json!({ "name": name, "concurrency": limit })).await;
    }
    for (name, uses) in [("a", ["left", "right"]), ("b", ["right", "left"])] {
        let uses = uses.map(|pool| json!({ "pool": pool }));
        world.define(json!({ "name": name, "concurrency": uses })).await;
    }
    let mut runs = Vec::new();
    for name in ["a", "b", "b", "a"] {
        runs.push(world.send_for_run(name, json!({})).await);
    }
    assert_eq!(world.drain().await, runs);
    world.check_holds().await;
}

/// spec L5, G5: a run that waits for its key holds nothing that runs with other keys need, also with
/// the span `run`.
pub async fn a_full_key_blocks_no_other_key_of_a_pool(world: &World) {
    let limit = json!({ "limit": 1, "key": "k", "span": "run" });
    world.put_pool(json!({ "name": "p", "concurrency": limit })).await;
    let whole = json!({ "limit": 2, "span": "run" });
    world.define(json!({ "name": "w", "concurrency": [whole, { "pool": "p" }] })).await;
    for _ in 0..3 {
        world.send_for_run("w", json!({ "k": "full" })).await;
    }
    let other = world.send("w", json!({ "k": "other" })).await;
    assert!(matches!(other, Verdict::Started { .. }), "{other:?}");
}

/// spec L6: an unknown pool, and a part that a pool does not have, are errors of the definition. A
/// release to a version that names a removed pool is refused, too.
pub async fn an_unknown_pool_is_an_error_of_the_definition(world: &World) {
    let named = |pool: &str| json!({ "name": "w", "throttle": [{ "pool": pool }] });
    let said = refusal(world, named("openai")).await;
    let rule = "workflow `w`: throttle[0].pool names pool `openai`, which does not exist";
    assert_eq!(said, format!("{rule}: declare it first: no pool is declared"));
    world.put_pool(json!({ "name": "openai", "concurrency": { "limit": 1 } })).await;
    let said = refusal(world, named("opnai")).await;
    assert!(said.ends_with("does not exist: did you mean `openai`?"), "{said}");
    let said = refusal(world, named("openai")).await;
    assert!(said.ends_with("`openai`, which has no throttle: declare it on the pool"), "{said}");
    let uses = json!({ "limit": 2, "key": "k" });
    let uses = json!([uses, { "pool": "openai" }]);
    world.define(json!({ "name": "w", "version": 1, "concurrency": uses })).await;
    world.define(json!({ "name": "w", "version": 2 })).await;
    world.pool(PoolCommand::Remove("openai".into())).await.expect("nobody uses it");
    let (ws, app, name) = (world.ws.clone(), "default".to_owned(), "w".to_owned());
    let release = Command::Release { ws, app, name, version: 1 };
    let said = world.run(release).await.unwrap_err().to_string();
    assert!(said.starts_with("workflow `w`: concurrency[1].pool names pool `openai`"), "{said}");
}

/// spec L6: a pool in use is not removed, nor the part that is used; the refusal names the users.
pub async fn a_pool_in_use_is_not_removed(world: &World) {
    shared(world, json!({ "limit": 2 })).await;
    let remove = || world.pool(PoolCommand::Remove("gpu".into()));
    let said = remove().await.unwrap_err();
    assert_eq!(said.code(), "pool_in_use");
    let users = "is used by `chat`, `index`: change them first";
    assert_eq!(said.to_string(), format!("a limit of pool `gpu` {users}"));
    let put = async |declaration: Value| {
        let pool = Pool::parse(&declaration).unwrap().value;
        world.pool(PoolCommand::Put(Box::new(pool))).await
    };
    let rate = json!({ "limit": 1, "perMs": 1 });
    let said = put(json!({ "name": "gpu", "throttle": rate })).await.unwrap_err().to_string();
    assert_eq!(said, format!("concurrency of pool `gpu` {users}"));
    let spanned = json!({ "name": "gpu", "concurrency": { "limit": 2, "span": "run" } });
    let said = put(spanned).await.unwrap_err().to_string();
    assert_eq!(said, format!("concurrency.span of pool `gpu` {users}"));
    let retire = |name: &str| {
        let (ws, app, name) = (world.ws.clone(), "default".to_owned(), name.to_owned());
        world.run(Command::Retire { ws, app, name })
    };
    world.define(json!({ "name": "index" })).await;
    retire("chat").await.unwrap();
    assert_eq!(remove().await, Ok(true));
    let said = remove().await.unwrap_err();
    assert_eq!(said.to_string(), "there is no pool `gpu`: no pool is declared");
    assert!(matches!(said, Refusal::Pool(_)));
    shared(world, json!({ "limit": 2 })).await;
    assert_eq!(world.drain().await.len(), 0);
}

/// spec L6: new numbers apply at their commit and evict nobody; the workflows keep their versions.
pub async fn new_numbers_apply_at_once(world: &World) {
    shared(world, json!({ "limit": 1 })).await;
    let mut runs = Vec::new();
    for name in ["chat", "index", "chat"] {
        runs.push(sent(world, name, 1).await);
    }
    let first = world.lease_one().await;
    world.put_pool(json!({ "name": "gpu", "concurrency": { "limit": 3 } })).await;
    world.sweep().await;
    let rest = world.lease_all().await;
    assert_eq!(rest.len(), 2, "a raised limit admits the queue");
    assert!(rest.iter().all(|run| run.version == 1));
    world.put_pool(json!({ "name": "gpu", "concurrency": { "limit": 1 } })).await;
    assert_eq!(world.inside("gpu", Class::PoolLimit, "(whole)").await, 3, "nobody is evicted");
    let last = sent(world, "chat", 1).await;
    world.complete(&first).await;
    world.complete(&rest[0]).await;
    assert!(world.lease_all().await.is_empty(), "the lower limit is full");
    world.complete(&rest[1]).await;
    assert_eq!(world.drain().await, [last]);
    world.check_holds().await;
}

/// spec L6: a raised limit reaches every key, more than one transaction changes.
pub async fn a_raised_limit_reaches_many_keys(world: &World) {
    let pool = |limit: u32| json!({ "name": "p", "concurrency": { "limit": limit, "key": "k", "span": "run" } });
    world.put_pool(pool(1)).await;
    world.define(json!({ "name": "w", "concurrency": { "pool": "p" } })).await;
    let keys = 900;
    for _ in 0..2 {
        for from in (0..keys).step_by(100) {
            let events = (from..from + 100).map(|k| event("w", &json!({ "k": k })));
            world.post_all(events.collect()).await;
        }
    }
    world.put_pool(pool(2)).await;
    world.sweep().await;
    let rows = world.dump().await;
    let waits = |row: &&Row| matches!(row, Row::Run(run) if run.entered < run.plan.len());
    assert_eq!(rows.iter().filter(waits).count(), 0, "some runs still wait");
    assert!(!rows.iter().any(|row| matches!(row, Row::Chore(_))), "the chore is over");
}

/// spec L6: code declares a pool again only when its own declaration has changed, so that a restart
/// does not undo a change by an operator.
pub async fn a_restart_keeps_what_an_operator_set(world: &World) {
    let pool = |limit: u32| json!({ "name": "p", "concurrency": { "limit": limit } });
    let limit = async || {
        let reads = tidegate_core::reads::ReadSet::default().catalog(&world.ws);
        let catalog = world.read(reads).await.catalogs[&world.ws].clone();
        catalog
            .pools()
            .get("p")
            .and_then(|pool| pool.concurrency.as_ref())
            .map(|it| it.limit.clone())
    };
    assert!(world.declare_pool(pool(5)).await);
    assert!(!world.declare_pool(pool(5)).await);
    world.put_pool(pool(2)).await;
    assert!(!world.declare_pool(pool(5)).await);
    assert_eq!(limit().await, Some(Amount::Fixed(2)));
    assert!(world.declare_pool(pool(6)).await);
    assert_eq!(limit().await, Some(Amount::Fixed(6)));
    world.pool(PoolCommand::Remove("p".into())).await.unwrap();
    assert_eq!(limit().await, None);
    assert!(world.declare_pool(pool(6)).await, "a removed pool is declared anew");
}

/// spec L4, explained: `why` names the pool.
pub async fn why_names_the_pool(world: &World) {
    shared(world, json!({ "limit": 2 })).await;
    let holder = sent(world, "chat", 2).await;
    let run = sent(world, "index", 1).await;
    world.serve().await;
    let why = why(&*world.store, &world.ws, run).await.unwrap().unwrap();
    assert_eq!(why.gates[0].pool.as_deref(), Some("gpu"));
    assert_eq!(
        why.sentence,
        format!(
            "it waits for concurrency of pool `gpu` (2 at once, 2 taken, it takes 1), \
             position 1 in the queue; freed by the end of {holder}"
        )
    );
}
