//! Singleton: at most one run per key, from its admission until its end.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Refusal},
    flow::Verdict,
    id::RunId,
    row::{Ending, Run},
    run::record::Then,
};

use crate::world::{World, replaced, skipped, step};

/// States in which a live run can be when the next event arrives.
const PHASES: [&str; 7] = ["line", "ready", "driven", "sleeping", "waiting", "retrying", "paused"];

/// Defines a workflow with a singleton and one slot, and brings its run with key `a` into a state.
///
/// Returns that run and, if it is queued, the run that holds the slot.
async fn bring(world: &World, name: &str, mode: &str, phase: &str) -> (RunId, Option<Run>) {
    let singleton = json!({ "key": "k", "mode": mode });
    world
        .define(json!({ "name": name, "singleton": singleton, "concurrency": { "limit": 1 } }))
        .await;
    if phase == "line" {
        world.send(name, json!({ "k": "front" })).await;
        let front = world.lease_one().await;
        return (world.send_for_run(name, json!({ "k": "a" })).await, Some(front));
    }
    let id = world.send_for_run(name, json!({ "k": "a" })).await;
    if phase == "ready" {
        return (id, None);
    }
    let run = world.lease_one().await;
    match phase {
        "driven" => {}
        "sleeping" => world.sleep(&run, "nap", 3_600_000).await,
        "waiting" => world.wait_for(&run, "reply", "answered", &[]).await,
        "retrying" => world.back_off(&run, "call", 3_600_000).await,
        "paused" => {
            assert_eq!(world.pause(id).await, Ok(Answer::Done));
            assert!(world.report(&run, vec![step("one", &json!(1))], Then::Continue).await.is_ok());
            assert_eq!(world.state(id).await, "paused");
        }
        other => panic!("unknown phase: {other}"),
    }
    (id, None)
}

/// Returns the run that replaced this one.
async fn ended_by(world: &World, run: RunId) -> Option<RunId> {
    match world.ended(run).await?.ending {
        Ending::Cancelled { by, .. } => by,
        Ending::Completed { .. } | Ending::Failed { .. } => None,
    }
}

/// spec B106, B107, B108, N11, N30: an event is skipped while a run is live, in any state of that
/// run, and the verdict names the reason.
pub async fn skip_keeps_the_live_run_wherever_it_is(world: &World) {
    for (phase, engine) in PHASES.into_iter().zip(1..) {
        let world = &world.engine(engine);
        let (live, front) = bring(world, phase, "skip", phase).await;
        let before = world.live(live).await;
        let verdict = world.send(phase, json!({ "k": "a" })).await;
        assert_eq!(skipped(&verdict), (live, "singleton"), "{phase}");
        assert_eq!(verdict.to_value()["skipped"], true);
        assert_eq!(verdict.run(), None);
        assert_eq!(
            world.live(live).await,
            before,
            "{phase}: the skipped event changed the live run"
        );
        if let Some(front) = front {
            world.complete(&front).await;
        }
        world.cancel(live).await.expect("it is alive");
        world.check_holds().await;
        world.lose(engine).await;
    }
}

/// spec B107, B109, B115, G7: a new event replaces the live run in any state. If the live run is
/// driven, the new one starts when its worker has stopped.
pub async fn cancel_replaces_the_live_run_wherever_it_is(world: &World) {
    for phase in PHASES {
        let (old, front) = bring(world, phase, "cancel", phase).await;
        let driven = world.live(old).await;
        let verdict = world.send(phase, json!({ "k": "a", "n": 2 })).await;
        let (new, gone) = replaced(&verdict);
        assert_eq!(gone, old, "{phase}");
        assert_eq!(world.state(old).await, "cancelled", "{phase}: at once");
        assert_eq!(ended_by(world, old).await, Some(new));
        assert_eq!(world.live(new).await.unwrap().replaced, Some(old));
        assert_eq!(world.alive(phase).await, 1 + usize::from(front.is_some()));
        if phase == "driven" {
            assert!(
                world.lease_all().await.is_empty(),
                "the new run started before the worker of the old one stopped"
            );
            world.stopped(&driven.unwrap()).await;
        }
        if let Some(front) = front {
            assert!(world.lease_all().await.is_empty(), "a run was leased over the limit");
            world.complete(&front).await;
        }
        assert_eq!(world.drain().await, [new], "{phase}");
        assert_eq!(world.input_of(new).await["n"], 2);
        world.tick(7_200_000).await;
        assert!(world.drain().await.is_empty(), "{phase}: the replaced run was driven again");
        world.check_holds().await;
    }
}

/// spec B115, G7: a replaced run can write nothing; its hold is also freed when its worker is lost.
pub async fn a_replaced_run_writes_nothing_more(world: &World) {
    world.define(json!({ "name": "sync", "singleton": {} })).await;
    let doomed = world.engine(7);
    world.send("sync", json!({ "n": 1 })).await;
    let old = doomed.lease_one().await;
    let (new, _) = replaced(&world.send("sync", json!({ "n": 2 })).await);
    let fenced = Err(Refusal::Fenced { run: old.id.seq, fence: old.fence });
    let late = doomed.report(&old, vec![step("late", &json!(1))], Then::Continue).await;
    assert_eq!(late, fenced);
    let done = Then::Complete(crate::world::payload(&json!("late")));
    assert_eq!(doomed.report(&old, Vec::new(), done).await, fenced);
    assert_eq!(ended_by(world, old.id).await, Some(new), "the reason of the cancel changed");
    world.tick(60_000).await;
    assert!(world.lease_all().await.is_empty(), "the slot was freed before the worker stopped");
    assert_eq!(doomed.lose(7).await, 1);
    assert_eq!(world.drain().await, [new]);
    world.check_holds().await;
}

/// spec B106, B109: if runs replace each other while the first is still being stopped, only the
/// last one starts.
pub async fn a_chain_of_replacements_leaves_the_last(world: &World) {
    world.define(json!({ "name": "sync", "singleton": {} })).await;
    world.send("sync", json!({ "n": 0 })).await;
    let first = world.lease_one().await;
    let mut chain = vec![first.id];
    for n in 1..5 {
        let (new, old) = replaced(&world.send("sync", json!({ "n": n })).await);
        assert_eq!(Some(&old), chain.last());
        assert_eq!(ended_by(world, old).await, Some(new));
        assert_eq!(world.alive("sync").await, 1);
        chain.push(new);
    }
    world.stopped(&first).await;
    assert_eq!(world.drain().await, chain[4..]);
    world.check_holds().await;
}

/// spec B106: a run that was cancelled by hand keeps its hold until its worker stops, and at most
/// one run waits for it.
pub async fn one_run_waits_for_a_run_cancelled_by_hand(world: &World) {
    for mode in ["skip", "cancel"] {
        world.define(json!({ "name": mode, "singleton": { "mode": mode } })).await;
        world.send(mode, json!({ "n": 0 })).await;
        let first = world.lease_one().await;
        world.cancel(first.id).await.unwrap();
        let second = world.send(mode, json!({ "n": 1 })).await;
        assert_eq!(second.outcome(), "queued");
        let third = world.send(mode, json!({ "n": 2 })).await;
        assert_eq!(world.alive(mode).await, 1, "{mode}");
        let survivor = match mode {
            "skip" => skipped(&third).0,
            _ => replaced(&third).0,
        };
        assert!(world.lease_all().await.is_empty());
        world.stopped(&first).await;
        assert_eq!(world.drain().await, [survivor]);
        world.check_holds().await;
    }
}

/// spec B106: a run that was queued under the mode of an earlier version is replaced under that of
/// the new one.
pub async fn a_new_mode_rules_from_its_release_on(world: &World) {
    let sync = |version: u32, mode: &str| json!({ "name": "sync", "version": version, "singleton": { "mode": mode } });
    world.define(sync(1, "skip")).await;
    world.send("sync", json!({ "n": 0 })).await;
    let first = world.lease_one().await;
    world.cancel(first.id).await.unwrap();
    let second = world.send_for_run("sync", json!({ "n": 1 })).await;
    world.define(sync(2, "cancel")).await;
    let (third, gone) = replaced(&world.send("sync", json!({ "n": 2 })).await);
    assert_eq!(gone, second);
    world.define(sync(3, "skip")).await;
    assert_eq!(skipped(&world.send("sync", json!({ "n": 3 })).await).0, third);
    world.stopped(&first).await;
    assert_eq!(world.drain().await, [third]);
    world.check_holds().await;
}

/// spec B110, B111: the default mode is `cancel`; without a key the singleton applies to the whole
/// workflow.
pub async fn by_default_it_cancels_and_covers_the_workflow(world: &World) {
    world.define(json!({ "name": "sync", "singleton": {} })).await;
    let first = world.send_for_run("sync", json!({ "k": "a" })).await;
    let (second, gone) = replaced(&world.send("sync", json!({ "k": "b" })).await);
    assert_eq!(gone, first);
    assert_eq!(world.drain().await, [second]);
}

/// spec B53, B56, B106, B132: each key, the events without a key, each workflow and each tenant
/// have separate singletons.
pub async fn keys_workflows_and_workspaces_are_apart(world: &World) {
    let other = world.in_workspace("b");
    let mut runs = 0;
    for tenant in [world, &other] {
        for name in ["sync", "copy"] {
            let singleton = json!({ "key": "k", "mode": "skip" });
            tenant.define(json!({ "name": name, "singleton": singleton })).await;
            for k in [json!("1"), json!(1), json!(true), Value::Null] {
                assert_eq!(tenant.send(name, json!({ "k": k })).await.outcome(), "started");
                skipped(&tenant.send(name, json!({ "k": k })).await);
                runs += 1;
            }
            skipped(&tenant.send(name, json!({ "k": {} })).await);
            skipped(&tenant.send(name, json!({})).await);
        }
    }
    assert_eq!(world.drain().await.len() + other.drain().await.len(), runs);
    world.check_holds().await;
}

/// spec B112: after the end of the live run, however it ended, the next event starts a run.
pub async fn after_any_end_the_next_trigger_starts(world: &World) {
    for mode in ["skip", "cancel"] {
        world.define(json!({ "name": mode, "singleton": { "mode": mode } })).await;
        for end in ["completed", "failed", "cancelled"] {
            let verdict = world.send(mode, json!({})).await;
            assert!(matches!(verdict, Verdict::Started { .. }), "{mode}, {end}: {verdict:?}");
            let run = world.lease_one().await;
            match end {
                "completed" => world.complete(&run).await,
                "failed" => world.fail(&run).await,
                _ => {
                    world.cancel(run.id).await.unwrap();
                    world.stopped(&run).await;
                }
            }
            assert_eq!(world.state(run.id).await, end);
        }
        world.check_holds().await;
    }
}

/// spec B113: concurrent events on several engines leave one live run per key, in both modes.
pub async fn triggers_at_once_leave_one_run_per_key(world: &World) {
    let (b, c) = (world.engine(2), world.engine(3));
    for mode in ["skip", "cancel"] {
        world.define(json!({ "name": mode, "singleton": { "mode": mode, "key": "k" } })).await;
        for _ in 0..5 {
            let (x, y) = (json!({ "k": "x" }), json!({ "k": "y" }));
            tokio::join!(
                world.send(mode, x.clone()),
                b.send(mode, x.clone()),
                c.send(mode, x),
                world.send(mode, y.clone()),
                c.send(mode, y),
            );
            assert_eq!(world.alive(mode).await, 2, "one per key");
        }
        assert_eq!(world.drain().await.len(), 2);
        world.check_holds().await;
    }
}

/// spec B114, A3: a skipped event is recorded, has its receipt, and wakes the runs that wait for
/// it.
pub async fn a_skipped_event_is_recorded_and_wakes_waiters(world: &World) {
    world.define(json!({ "name": "waiter", "triggers": ["begin"] })).await;
    world.define(json!({ "name": "other", "triggers": ["sync"] })).await;
    world.define(json!({ "name": "sync", "singleton": { "mode": "skip" } })).await;
    world.post("sync", json!({ "n": 1 })).await;
    for run in world.lease_all().await {
        if run.workflow == "other" {
            world.complete(&run).await;
        }
    }
    world.send("begin", json!({})).await;
    let waiter = world.lease_one().await;
    world.wait_for(&waiter, "next", "sync", &[("n", json!(2))]).await;
    let posted = world.post("sync", json!({ "n": 2 })).await;
    assert_eq!(posted.woke, 1);
    assert_eq!(world.data_of(posted.id).await, json!({ "n": 2 }));
    let outcomes: Vec<_> = posted.runs.iter().map(|outcome| outcome.verdict.outcome()).collect();
    assert_eq!(outcomes, ["started", "skipped"], "the other workflow must start its run");
    let receipts = world.receipts_of(posted.id).await;
    assert_eq!(receipts.len(), 1);
    assert_eq!(
        (&receipts[0]["outcome"], &receipts[0]["control"]),
        (&json!("skipped"), &json!("singleton"))
    );
    assert_eq!(
        world.drain().await.len(),
        2,
        "expected the run that waited and the run of the other workflow"
    );
}

/// spec G4: a run that replaces an unstarted run inherits its rank, both in the queue and with its
/// slot.
pub async fn a_newcomer_inherits_the_rank_of_a_run_not_yet_started(world: &World) {
    let singleton = json!({ "key": "k" });
    world
        .define(json!({ "name": "sync", "singleton": singleton, "concurrency": { "limit": 1 } }))
        .await;
    let _ready = world.send_for_run("sync", json!({ "k": "a" })).await;
    let _second = world.send_for_run("sync", json!({ "k": "b" })).await;
    let third = world.send_for_run("sync", json!({ "k": "c" })).await;
    world.tick(1000).await;
    let (b, _) = replaced(&world.send("sync", json!({ "k": "b" })).await);
    let (a, _) = replaced(&world.send("sync", json!({ "k": "a" })).await);
    assert_eq!(world.drain().await, [a, b, third]);
    world.check_holds().await;
}

/// spec G4: a run that replaces a started run gets a new rank.
pub async fn a_newcomer_for_a_started_run_queues_anew(world: &World) {
    let singleton = json!({ "key": "k" });
    world
        .define(json!({ "name": "sync", "singleton": singleton, "concurrency": { "limit": 1 } }))
        .await;
    world.send("sync", json!({ "k": "a" })).await;
    let started = world.lease_one().await;
    world.sleep(&started, "nap", 60_000).await;
    world.send("sync", json!({ "k": "front" })).await;
    let front = world.lease_one().await;
    let b = world.send_for_run("sync", json!({ "k": "b" })).await;
    let (a, _) = replaced(&world.send("sync", json!({ "k": "a" })).await);
    world.complete(&front).await;
    assert_eq!(world.drain().await, [b, a]);
    world.check_holds().await;
}

/// spec N11, B107: a paused run keeps its key and uses no slot; after resume it continues.
pub async fn a_paused_run_keeps_its_key_and_no_slot(world: &World) {
    let (paused, _) = bring(world, "sync", "skip", "paused").await;
    let other = world.send_for_run("sync", json!({ "k": "b" })).await;
    assert_eq!(world.drain().await, [other], "the slot is free");
    skipped(&world.send("sync", json!({ "k": "a" })).await);
    world.resume(paused).await.unwrap();
    assert_eq!(world.drain().await, [paused]);
    assert_eq!(world.send("sync", json!({ "k": "a" })).await.outcome(), "started");
    world.check_holds().await;
}

/// spec A2: an event that a singleton skips takes no claim and spends no token.
pub async fn a_skipped_event_consumes_nothing(world: &World) {
    let definition = json!({
        "name": "sync", "singleton": { "mode": "skip" }, "idempotency": { "key": "n" },
        "rateLimit": { "limit": 2, "perMs": 1000 }
    });
    world.define(definition).await;
    world.send("sync", json!({ "n": 1 })).await;
    for _ in 0..5 {
        skipped(&world.send("sync", json!({ "n": 2 })).await);
    }
    world.drain().await;
    assert_eq!(world.send("sync", json!({ "n": 2 })).await.outcome(), "started");
}
