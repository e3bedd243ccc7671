//! Concurrency: limits on holders, and the order of the queue.

use std::cell::Cell;

use serde_json::{Value, json};
use tidegate_core::{
    command::Command,
    flow::Verdict,
    id::RunId,
    reads::{ReadSet, Scan},
    row::{Class, RowKey, Run},
    run::record::{Record, Then},
    time::Timestamp,
};

use crate::world::{World, event, payload};

/// spec G1, B60, B66: the limit on driven runs is never exceeded; no run is dropped, and every run
/// gets a turn.
pub async fn never_more_than_the_limit_are_driven(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 3 } })).await;
    for n in 0..10 {
        world.send("sync", json!({ "n": n })).await;
    }
    let mut done = 0;
    while done < 10 {
        let runs = world.lease_all().await;
        assert!(!runs.is_empty() && runs.len() <= 3, "{} at once", runs.len());
        assert!(world.lease_all().await.is_empty(), "a run was leased over the limit");
        for run in runs {
            world.complete(&run).await;
            done += 1;
        }
    }
    world.check_holds().await;
}

/// spec G1, B65, B131: engines that share a store share the limit, whichever engine posts or
/// drives.
pub async fn several_engines_share_the_limit(world: &World) {
    let engines = [world.engine(11), world.engine(12), world.engine(13)];
    world.define(json!({ "name": "sync", "concurrency": { "limit": 4 } })).await;
    for n in 0..30 {
        engines[n % 3].send("sync", json!({ "n": n })).await;
    }
    let (mut driven, mut done) = (Vec::<Run>::new(), 0);
    for round in 0.. {
        let engine = &engines[round % 3];
        driven.extend(engine.lease(1 + u32::try_from(round % 2).unwrap()).await);
        assert!(driven.len() <= 4, "{} at once", driven.len());
        assert!(world.inside("sync", Class::Whole, "(whole)").await <= 4);
        if round % 2 == 1 && !driven.is_empty() {
            // Each run ends on its own engine, in no particular order.
            let run = driven.remove(round % driven.len());
            match round % 3 {
                0 => engines[0].fail(&run).await,
                _ => engines[1].complete(&run).await,
            }
            done += 1;
        }
        if done == 30 {
            break;
        }
    }
    assert_eq!(world.alive("sync").await, 0);
    world.check_holds().await;
}

/// spec G1, B65, B131: the limit holds while engines race for every slot.
pub async fn engines_that_race_never_exceed_the_limit(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 3 } })).await;
    let (inside, most, done) = (Cell::new(0_u32), Cell::new(0_u32), Cell::new(0_u32));
    let drive = async |id: u128| {
        let engine = world.engine(id);
        for n in 0..8 {
            engine.send("sync", json!({ "n": n })).await;
            let runs = engine.lease(2).await;
            inside.set(inside.get() + u32::try_from(runs.len()).unwrap());
            most.set(most.get().max(inside.get()));
            for run in runs {
                tokio::task::yield_now().await;
                // The counter is lowered before the report, because the report admits the next run.
                inside.set(inside.get() - 1);
                engine.complete(&run).await;
                done.set(done.get() + 1);
            }
        }
    };
    tokio::join!(drive(11), drive(12), drive(13), drive(14));
    let rest = u32::try_from(world.drain().await.len()).unwrap();
    assert!(most.get() <= 3, "{} at once", most.get());
    assert_eq!(done.get() + rest, 32, "a run was driven twice or never");
    world.check_holds().await;
}

/// spec G4, B67: runs are served in the order of arrival, and a freed slot is handed on at once.
pub async fn waiters_are_served_in_their_order(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 1 } })).await;
    let mut sent = Vec::new();
    for n in 0..5 {
        sent.push(world.send("sync", json!({ "n": n })).await.run().unwrap());
    }
    let mut served = Vec::new();
    for _ in 0..5 {
        let run = world.lease_one().await;
        served.push(run.id);
        world.complete(&run).await;
    }
    assert_eq!(served, sent);
}

/// spec G4, B66: the caller learns whether its run starts or at which gate it is queued.
pub async fn the_caller_is_told_for_which_gate_it_waits(world: &World) {
    let limits = json!([{ "limit": 2 }, { "limit": 1, "key": "account" }]);
    world.define(json!({ "name": "sync", "concurrency": limits })).await;
    let started = world.send("sync", json!({ "account": "a" })).await;
    assert!(matches!(started, Verdict::Started { .. }), "{started:?}");
    let queued = world.send("sync", json!({ "account": "a" })).await;
    let Verdict::Queued { by, start_at, .. } = queued else { panic!("{queued:?}") };
    assert_eq!((by.control, by.key.as_str(), start_at), ("concurrency", "a", None));
    world.send("sync", json!({ "account": "b" })).await;
    let queued = world.send("sync", json!({ "account": "c" })).await;
    let Verdict::Queued { by, .. } = queued else { panic!("{queued:?}") };
    assert_eq!((by.control, by.key.as_str()), ("concurrency", "(whole)"));
}

/// spec G5, B70: a full gate delays no other key, and a claim does not read the runs queued at it.
pub async fn a_full_gate_delays_no_other_key(world: &World) {
    let limit = json!({ "limit": 1, "key": "account" });
    world.define(json!({ "name": "sync", "concurrency": limit })).await;
    let waiting = (0..200).map(|_| event("sync", &json!({ "account": "a" }))).collect();
    world.post_all(waiting).await;
    let first = world.lease(1).await;
    assert_eq!(first.len(), 1);
    let started = world.send("sync", json!({ "account": "b" })).await;
    assert!(matches!(started, Verdict::Started { .. }), "{started:?}");
    // A claim of one run succeeds although 199 older runs are queued.
    let leased = world.lease(1).await;
    assert_eq!(leased.iter().map(|run| run.id).collect::<Vec<_>>(), [started.run().unwrap()]);
    world.check_holds().await;
}

/// spec B51, G9: all of several limits hold, and a run that is queued for its key takes no slot of
/// the limit without a key.
pub async fn several_limits_hold_at_once(world: &World) {
    let limits = json!([{ "limit": 3 }, { "limit": 1, "key": "account" }]);
    world.define(json!({ "name": "sync", "concurrency": limits })).await;
    let mut sent = Vec::new();
    for account in ["a", "a", "b", "c", "d", "d"] {
        sent.push(world.send_for_run("sync", json!({ "account": account })).await);
    }
    let ids = |runs: &[Run]| runs.iter().map(|run| run.id).collect::<Vec<_>>();
    let first = world.lease_all().await;
    assert_eq!(
        ids(&first),
        [sent[0], sent[2], sent[3]],
        "the second run of account a must take no slot"
    );
    assert_eq!(
        world.inside("sync", Class::Keyed, "d").await,
        1,
        "one run of d must have its key's slot, and wait for the other"
    );
    world.complete(&first[1]).await;
    let second = world.lease_all().await;
    assert_eq!(ids(&second), [sent[4]]);
    world.complete(&first[0]).await;
    assert_eq!(
        ids(&world.lease_all().await),
        [sent[1]],
        "the second run of a is older than that of d and must be next"
    );
    world.complete(&second[0]).await;
    assert_eq!(ids(&world.lease_all().await), [sent[5]]);
    world.check_holds().await;
}

/// spec G4, G9: a run that passes one gate and is queued at the next one is ordered there by its
/// rank, not by the time of its arrival at this gate.
pub async fn at_the_next_gate_the_older_run_is_served_first(world: &World) {
    let limits = json!([{ "limit": 1 }, { "limit": 1, "key": "account" }]);
    world.define(json!({ "name": "sync", "concurrency": limits })).await;
    let mut sent = Vec::new();
    for account in ["a", "a", "b"] {
        sent.push(world.send_for_run("sync", json!({ "account": account })).await);
    }
    let first = world.lease_one().await;
    // The third run is queued at the second gate already, the second run still at the gate of its
    // key.
    world.complete(&first).await;
    let second = world.lease_one().await;
    assert_eq!(second.id, sent[1]);
    world.complete(&second).await;
    assert_eq!(world.lease_one().await.id, sent[2]);
    world.check_holds().await;
}

/// spec G9: runs that need several gates in any combination neither starve nor deadlock, and no
/// limit is exceeded.
pub async fn no_run_starves_and_no_two_deadlock(world: &World) {
    let limits = json!([
        { "limit": 3 },
        { "limit": 1, "key": "a" },
        { "limit": 2, "key": "b" },
        { "limit": 2, "key": "b", "span": "run" },
    ]);
    world.define(json!({ "name": "sync", "concurrency": limits })).await;
    let mut state = 12345_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut sent = Vec::<RunId>::new();
    for _ in 0..40 {
        let data = json!({ "a": random(3), "b": random(4) });
        sent.push(world.send_for_run("sync", data).await);
    }
    let (mut driven, mut done) = (Vec::new(), 0);
    for round in 0..2000 {
        driven.extend(world.lease(1 + u32::try_from(random(3)).unwrap()).await);
        assert!(driven.len() <= 3);
        for key in ["0", "1", "2", "3"] {
            assert!(
                world.inside("sync", Class::Keyed, key).await <= 3,
                "key {key} is over its limits: one by a, two by b"
            );
            assert!(world.inside("sync", Class::RunLimit, key).await <= 2);
        }
        if !driven.is_empty() {
            let at = usize::try_from(random(driven.len() as u64)).unwrap();
            let run = driven.remove(at);
            if random(4) == 0 && round < 1000 {
                world.sleep(&run, &format!("nap{round}"), 1).await;
            } else {
                world.complete(&run).await;
                done += 1;
            }
        }
        world.tick(1).await;
        if done == sent.len() {
            break;
        }
    }
    assert_eq!(done, sent.len(), "some runs never ended");
    world.check_holds().await;
}

/// spec G2, G9: with the span `run`, a run holds its slot from its admission until it is over.
pub async fn with_the_span_run_a_sleeping_run_counts(world: &World) {
    let limit = json!({ "limit": 2, "span": "run" });
    world.define(json!({ "name": "sync", "concurrency": limit })).await;
    for n in 0..3 {
        world.send("sync", json!({ "n": n })).await;
    }
    assert_eq!(
        world.inside("sync", Class::RunLimit, "(whole)").await,
        2,
        "runs must be counted before they are leased"
    );
    let runs = world.lease_all().await;
    assert_eq!(runs.len(), 2);
    world.sleep(&runs[0], "nap", 1000).await;
    world.wait_for(&runs[1], "wait", "go", &[]).await;
    assert!(world.lease_all().await.is_empty(), "both still count");
    world.tick(1000).await;
    let woken = world.lease_one().await;
    assert_eq!(woken.id, runs[0].id, "a run that wakes must keep its slot");
    world.complete(&woken).await;
    assert_eq!(world.lease_all().await.len(), 1);
    world.check_holds().await;
}

/// spec G2, G9: with both spans, a sleeping run keeps its slot of the span `run` and frees its
/// executing slot.
pub async fn both_spans_stand_side_by_side(world: &World) {
    let limits = json!([{ "limit": 2, "span": "run" }, { "limit": 1 }]);
    world.define(json!({ "name": "sync", "concurrency": limits })).await;
    let mut sent = Vec::new();
    for n in 0..3 {
        sent.push(world.send_for_run("sync", json!({ "n": n })).await);
    }
    let first = world.lease_one().await;
    world.sleep(&first, "nap", 1000).await;
    let second = world.lease_one().await;
    assert_eq!((first.id, second.id), (sent[0], sent[1]));
    world.sleep(&second, "nap", 2000).await;
    assert!(
        world.lease_all().await.is_empty(),
        "a third run started although two sleeping runs count"
    );
    assert_eq!(world.inside("sync", Class::Whole, "(whole)").await, 0);
    world.tick(1000).await;
    world.complete(&world.lease_one().await).await;
    assert_eq!(world.lease_one().await.id, sent[2]);
    world.check_holds().await;
}

/// spec G4: when many runs end in one transaction, it admits as many queued runs, in their order.
pub async fn many_that_end_together_name_their_successors(world: &World) {
    world.define(json!({ "name": "sync", "concurrency": { "limit": 100 } })).await;
    let events = (0..300).map(|n| event("sync", &json!({ "n": n }))).collect();
    let posted = world.post_all(events).await;
    let sent: Vec<_> = posted.iter().map(|it| it.runs[0].verdict.run().unwrap()).collect();
    for wave in sent.chunks(100) {
        let runs = world.lease_all().await;
        assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), wave);
        let done = |run: &Run| Command::Record {
            known: Box::new(run.clone()),
            report: Record::new(
                run.id.seq,
                run.owner.unwrap(),
                run.fence,
                Then::Complete(payload(&Value::Null)),
            ),
        };
        let answers = world.batch(runs.iter().map(done).collect()).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        world.check_holds().await;
    }
    assert_eq!(world.alive("sync").await, 0);
}

/// Builds a version of a workflow with a limit.
fn limited(version: u32, limit: u32) -> Value {
    json!({ "name": "sync", "version": version, "concurrency": { "limit": limit } })
}

/// spec controls: the limit of a new release applies from its commit on: a higher limit admits more
/// runs, a lower one evicts none, and without a limit all are admitted.
pub async fn a_new_releases_limit_rules_at_once(world: &World) {
    world.define(limited(1, 1)).await;
    for n in 0..9 {
        world.send("sync", json!({ "n": n })).await;
    }
    let mut driven = world.lease_all().await;
    assert_eq!(driven.len(), 1);
    world.define(limited(2, 4)).await;
    world.sweep().await;
    driven.extend(world.lease_all().await);
    assert_eq!(driven.len(), 4, "raised");
    world.define(limited(3, 2)).await;
    world.sweep().await;
    assert_eq!(
        world.inside("sync", Class::Whole, "(whole)").await,
        4,
        "the lower limit evicted a run"
    );
    world.complete(&driven[0]).await;
    world.complete(&driven[1]).await;
    assert!(
        world.lease_all().await.is_empty(),
        "a run was leased although two hold the lower limit of two"
    );
    world.complete(&driven[2]).await;
    assert_eq!(world.lease_all().await.len(), 1, "lowered");
    world.define(json!({ "name": "sync", "version": 4 })).await;
    world.sweep().await;
    assert_eq!(world.lease_all().await.len(), 4, "gone");
    world.check_holds().await;
}

/// spec controls, G4: after a limit is raised, a long queue is admitted in bounded pieces, and
/// completely.
pub async fn a_limit_raised_over_a_long_line_serves_all_of_it(world: &World) {
    world.define(limited(1, 1)).await;
    world.post_all((0..600).map(|n| event("sync", &json!({ "n": n }))).collect()).await;
    world.define(limited(2, 1000)).await;
    let due = world.read(ReadSet::default().scan(Scan::DueGates(Timestamp::MIN), 1)).await;
    let mut found = due.scans.into_values().flat_map(|found| found.keys);
    let Some(RowKey::Gate(gate)) = found.next() else {
        panic!("the gate with the queue is not due")
    };
    let sweep = Command::SweepGate { ws: world.ws.clone(), gate };
    world.run(sweep).await.unwrap();
    let served = world.inside("sync", Class::Whole, "(whole)").await;
    assert!((2..600).contains(&served), "one sweep of the gate admitted {served} runs");
    world.sweep().await;
    assert_eq!(world.inside("sync", Class::Whole, "(whole)").await, 600);
    world.check_holds().await;
}
