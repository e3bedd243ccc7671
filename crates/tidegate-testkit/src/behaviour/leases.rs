//! Leases: which engine drives a run, and reports of a worker that lost its lease.

use std::collections::BTreeSet;

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal},
    row::{Begun, EngineId, Row, RowKey, Run, RunError},
    run::{
        record::{Recorded, Then},
        sweep::MAX_DEATHS,
    },
};

use tidegate_store::why;

use crate::{
    worker::{again, failed, for_event},
    world::{World, lease, payload, step},
};

/// Returns a report of each kind (`Then`).
fn every_then(world: &World) -> [Then; 6] {
    [
        Then::Continue,
        Then::Suspend(vec![for_event("paid", "payment"), world.nap("nap", 10)]),
        Then::Suspend(vec![again("pay", 10)]),
        Then::Complete(payload(&json!("late"))),
        Then::Fail(RunError::new("Late", "late")),
        Then::Yield,
    ]
}

/// Asserts that no report of this lease's holder is written.
async fn can_write_nothing(world: &World, lost: &Run) {
    let before = world.dump().await;
    let fenced = Refusal::Fenced { run: lost.id.seq, fence: lost.fence };
    for then in every_then(world) {
        let report = world.report(lost, vec![step("late", &json!(1))], then.clone()).await;
        assert_eq!(report, Err(fenced.clone()), "{then:?}");
    }
    assert_eq!(world.dump().await, before, "a report without a valid lease was written");
}

/// spec leases, B174, B177: a worker that lost its lease can write nothing, whether or not another
/// worker has the run.
pub async fn an_old_fence_writes_nothing_after_a_reap(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
    let lost = world.drive("order", json!({})).await;
    assert_eq!(world.lose(world.engine).await, 1);
    can_write_nothing(world, &lost).await;
    let other = world.engine(2);
    let taken = other.lease_one().await;
    assert_eq!(
        (taken.id, taken.fence),
        (lost.id, lost.fence + 1),
        "each new lease must raise the fence by one"
    );
    can_write_nothing(world, &lost).await;
    world.stopped(&lost).await;
    assert_eq!(other.state(lost.id).await, "running", "a stop with an old fence took effect");
    // The new lease is refused with the old engine as its owner, and with another fence.
    let imposter = Run { owner: Some(world.engine), ..taken.clone() };
    can_write_nothing(world, &imposter).await;
    can_write_nothing(world, &Run { fence: taken.fence + 1, ..taken.clone() }).await;
    other.complete(&taken).await;
    can_write_nothing(world, &taken).await;
    world.check_quiet().await;
}

/// spec G7, replace: a worker can write nothing after its run was cancelled or replaced.
pub async fn an_old_fence_writes_nothing_after_a_cancel(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "cancel" } })).await;
    let cancelled = world.drive("order", json!({})).await;
    assert_eq!(world.cancel(cancelled.id).await, Ok(Answer::Done));
    can_write_nothing(world, &cancelled).await;
    world.stopped(&cancelled).await;
    can_write_nothing(world, &cancelled).await;
    let old = world.drive("order", json!({})).await;
    let new = world.start("order", json!({})).await;
    can_write_nothing(world, &old).await;
    assert!(
        world.lease_all().await.is_empty(),
        "the new run started before the worker of the old one stopped"
    );
    world.stopped(&old).await;
    can_write_nothing(world, &old).await;
    assert_eq!(world.drain().await, [new]);
    world.check_quiet().await;
}

/// spec G6, G7, B68: if a worker dies while it stops a cancelled run, the holds are freed at the
/// end of its lease.
pub async fn a_dead_worker_has_stopped(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "cancel" } })).await;
    let old = world.drive("order", json!({})).await;
    let new = world.start("order", json!({})).await;
    let other = world.engine(2);
    assert!(other.lease_all().await.is_empty());
    assert_eq!(world.lose(world.engine).await, 1);
    let run = other.lease_one().await;
    assert_eq!((run.id, run.replaced), (new, Some(old.id)));
    world.stopped(&old).await;
    other.complete(&run).await;
    assert_eq!(world.state(old.id).await, "cancelled");
    world.check_quiet().await;
}

/// spec B170, B175, B176, B182: of concurrent leases, exactly one gets each run.
pub async fn leases_of_several_engines_are_disjoint(world: &World) {
    world.define(json!({ "name": "order" })).await;
    for n in 0..30 {
        world.start("order", json!({ "n": n })).await;
    }
    let engines = [world.engine(2), world.engine(3), world.engine(4)];
    let [a, b, c] = &engines;
    let (first, second, third) = tokio::join!(a.lease(8), b.lease(8), c.lease(8));
    let mut seen = BTreeSet::new();
    for (engine, runs) in engines.iter().zip([first, second, third]) {
        assert_eq!(runs.len(), 8);
        for run in runs {
            assert_eq!((run.owner, run.fence), (Some(engine.engine), 1));
            assert!(seen.insert(run.id), "{} is leased twice", run.id);
        }
    }
    assert_eq!(world.lease(100).await.len(), 6, "the rest");
    assert!(world.lease(100).await.is_empty());
}

/// spec B65, G1: leases of two engines in one transaction are disjoint, too.
pub async fn leases_in_one_transaction_are_disjoint(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 3 } })).await;
    for n in 0..5 {
        world.start("order", json!({ "n": n })).await;
    }
    let lanes = world.lanes().await;
    let lease = |engine| {
        let (ws, lanes) = (world.ws.clone(), lanes.clone());
        lease(ws, engine, lanes, 2)
    };
    let mut leased = Vec::new();
    for engine in [2, 3, 4] {
        world.engine(engine).enlist().await;
    }
    for answer in world.batch(vec![lease(2), lease(3), lease(4)]).await {
        let Ok(Answer::Leased(runs)) = answer else {
            panic!("unexpected answer to a lease: {answer:?}")
        };
        leased.push(runs);
    }
    let sizes: Vec<_> = leased.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 1, 0]);
    let ids: BTreeSet<_> = leased.iter().flatten().map(|run| run.id).collect();
    assert_eq!(ids.len(), 3);
    world.check_holds().await;
}

/// spec G6, B68, B173: runs are taken only from an engine that is marked dead. An engine is marked
/// dead only if it sent no heartbeat since the one that the caller read.
pub async fn only_the_dead_are_reaped(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
    assert!(world.heartbeat(world.engine).await, "the first beat");
    let run = world.drive("order", json!({})).await;
    let seen = 1;
    assert!(world.heartbeat(world.engine).await);
    let mark = |beat| Command::MarkDead { engine: world.engine, beat };
    let reap = || Command::Reap {
        known: Box::new(run.clone()),
        engine: world.engine,
        max_deaths: MAX_DEATHS,
    };
    assert_eq!(
        world.run(mark(seen)).await,
        Ok(Answer::Changed(false)),
        "an engine was marked dead after a newer heartbeat"
    );
    assert_eq!(world.run(reap()).await, Ok(Answer::Changed(false)), "it lives");
    world.record(&run, "pay", json!(1)).await.expect("the lease is good");
    let engine = world.row(RowKey::Engine(world.engine)).await;
    assert!(matches!(engine, Some(Row::Engine(row)) if !row.dead));
    assert_eq!(world.run(mark(seen + 1)).await, Ok(Answer::Changed(true)));
    assert_eq!(world.run(mark(seen + 1)).await, Ok(Answer::Changed(false)), "once");
    assert!(!world.heartbeat(world.engine).await, "the heartbeat of a dead engine must be refused");
    assert_eq!(world.run(reap()).await, Ok(Answer::Changed(true)));
    assert_eq!(world.run(reap()).await, Ok(Answer::Changed(false)), "a run was reaped twice");
    let taken = world.engine(2).lease_one().await;
    assert_eq!(world.run(reap()).await, Ok(Answer::Changed(false)), "it is another's");
    world.complete(&taken).await;
    world.check_quiet().await;
}

/// spec heartbeats: an engine that was marked dead gets no more leases, because no other engine
/// would reap them. A restarted process has a new id, and gets leases.
pub async fn a_dead_engine_leases_nothing(world: &World) {
    world.define(json!({ "name": "order" })).await;
    world.start("order", json!({})).await;
    world.lose(world.engine).await;
    let (ws, engine, lanes) = (world.ws.clone(), world.engine, world.lanes().await);
    let lease = world.run(lease(ws, engine, lanes, 9)).await;
    assert_eq!(lease, Err(Refusal::EngineDead(engine)));
    assert_eq!(world.engine(2).lease_all().await.len(), 1);
}

/// spec B178, B179, B162: a recorded step survives the loss of a worker; a step that was not
/// recorded is executed again. A repeated report is recorded once.
pub async fn a_step_is_recorded_once(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    assert_eq!(world.record(&run, "pay", json!("first")).await, Ok(Recorded::GoOn));
    // The worker got no answer, and repeats the report with one more step.
    let again = vec![step("pay", &json!("second")), step("mail", &json!(2)), failed("log", "Full")];
    assert_eq!(world.report(&run, again, Then::Continue).await, Ok(Recorded::GoOn));
    assert_eq!(world.lose(world.engine).await, 1);
    let world = world.engine(2);
    let run = world.lease_one().await;
    let steps = world.steps(run.id).await;
    let reply: Vec<_> = steps.iter().map(|step| (step.id.as_str(), step.fence)).collect();
    assert_eq!(reply, [("log", 1), ("mail", 1), ("pay", 1)]);
    assert_eq!(world.record(&run, "pay", json!("third")).await, Ok(Recorded::GoOn));
    let first = Some(Ok(r#""first""#.to_owned()));
    assert_eq!(
        world.came_of(run.id, "pay").await,
        first,
        "a repeated report changed a recorded step"
    );
    world.complete(&run).await;
    world.check_quiet().await;
}

/// Leases the run on the next engine, reports the begin of its handler if `begins`, and lets the
/// engine die. Returns the run as it was leased.
async fn die(world: &World, engine: &mut EngineId, begins: bool) -> Run {
    *engine += 1;
    let world = world.engine(*engine);
    let leased = world.lease_one().await;
    if begins {
        let begun = world.report(&leased, Vec::new(), Then::Continue).await;
        assert_eq!(begun, Ok(Recorded::GoOn));
    }
    assert_eq!(world.lose(*engine).await, 1);
    leased
}

/// A run whose handler had begun at [`MAX_DEATHS`] deaths of engines in a row is paused with the
/// reason. It keeps its holds of the span `run` and frees the others. Progress and `resume` reset
/// the count.
pub async fn deaths_under_way_pause_a_run(world: &World) {
    let singleton = json!({ "key": "id", "mode": "skip" });
    let definition =
        json!({ "name": "order", "singleton": singleton, "concurrency": { "limit": 1 } });
    world.define(definition).await;
    let run = world.start("order", json!({ "id": 1 })).await;
    let mut engine = 10;
    for progress in ["step", "suspend", "retry", "resume", "none"] {
        // The first death is not counted: engines report the begin of the handler only after it.
        assert_eq!(die(world, &mut engine, false).await.begun, Begun::Untracked, "{progress}");
        for deaths in 0..MAX_DEATHS - 1 {
            let leased = die(world, &mut engine, true).await;
            assert_eq!((leased.deaths, leased.begun), (deaths, Begun::No), "{progress}");
        }
        engine += 1;
        let last = world.engine(engine);
        let leased = last.lease_one().await;
        last.report(&leased, Vec::new(), Then::Continue).await.expect("the lease is good");
        match progress {
            "step" => {
                last.record(&leased, "pay", json!(1)).await.expect("the lease is good");
                last.report(&leased, Vec::new(), Then::Yield).await.expect("the lease is good");
            }
            "suspend" => last.sleep(&leased, "nap", 1).await,
            "retry" => {
                let then = Then::Suspend(vec![again("mail", 1)]);
                last.report(&leased, Vec::new(), then).await.expect("the lease is good");
            }
            _ => assert_eq!(last.lose(engine).await, 1),
        }
        if progress == "resume" {
            assert_eq!(world.state(run).await, "paused");
            world.resume(run).await.expect("it is paused");
        }
        world.tick(1).await;
    }
    assert_eq!(world.state(run).await, "paused");
    let reason = "it was paused after 10 worker deaths while it was under way; resume it after \
                  fixing the cause";
    let why = why(&*world.store, &world.ws, run).await.expect("the store works");
    let why = why.expect("there is the run");
    assert!(why.sentence.starts_with(reason), "{}", why.sentence);
    world.check_holds().await;
    let skipped = world.send("order", json!({ "id": 1 })).await;
    assert_eq!(skipped.outcome(), "skipped", "a paused run must keep its hold of the span `run`");
    let other = world.start("order", json!({ "id": 2 })).await;
    let world = world.engine(engine + 1);
    assert_eq!(world.drain().await, [other], "a paused run must free its executing slot");
    world.resume(run).await.expect("it is paused");
    let leased = world.lease_one().await;
    assert_eq!((leased.id, leased.deaths, leased.begun), (run, 0, Begun::Untracked));
    assert_eq!((leased.pause_reason.as_ref(), leased.takeovers), (None, 52));
    world.complete(&leased).await;
    world.check_quiet().await;
}

/// The death of an engine is not counted for a run whose handler had not begun.
pub async fn a_death_before_the_handler_is_not_counted(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.start("order", json!({})).await;
    let mut engine = 10;
    for n in 0..3 * MAX_DEATHS {
        let leased = die(world, &mut engine, false).await;
        assert_eq!((leased.deaths, leased.takeovers), (0, n));
    }
    // The death is not counted either if an earlier engine began the handler and then handed the
    // run over.
    engine += 1;
    let first = world.engine(engine);
    let leased = first.lease_one().await;
    first.report(&leased, Vec::new(), Then::Continue).await.expect("the lease is good");
    first.report(&leased, Vec::new(), Then::Yield).await.expect("the lease is good");
    die(world, &mut engine, false).await;
    let world = world.engine(engine + 1);
    let leased = world.lease_one().await;
    assert_eq!((leased.id, leased.deaths), (run, 0));
    world.complete(&leased).await;
    world.check_quiet().await;
}

/// The code of a workflow that is called by URL does not run in the engine and cannot cause its
/// death.
pub async fn a_run_called_by_url_survives_any_number_of_deaths(world: &World) {
    world.define(json!({ "name": "order", "url": "https://example.com/order" })).await;
    let run = world.start("order", json!({})).await;
    let mut engine = 10;
    for n in 0..3 * MAX_DEATHS {
        let leased = die(world, &mut engine, true).await;
        assert_eq!((leased.begun, leased.deaths, leased.takeovers), (Begun::Untracked, 0, n));
    }
    let world = world.engine(engine + 1);
    assert_eq!(world.drain().await, [run]);
    world.check_quiet().await;
}

/// spec leases: an engine that shuts down hands over its runs; this does not count as the loss of a
/// worker, and each run keeps its slot.
pub async fn a_handover_is_no_loss(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
    world.start("order", json!({ "n": 1 })).await;
    let behind = world.start("order", json!({ "n": 2 })).await;
    let mut engine = world.engine(2);
    for n in 0..3 * MAX_DEATHS {
        let run = engine.lease_one().await;
        assert_eq!((run.deaths, run.fence), (0, i64::from(n) + 1));
        let answer = engine.report(&run, Vec::new(), Then::Yield).await;
        assert_eq!(answer, Ok(Recorded::LetGo));
        can_write_nothing(&engine, &run).await;
        engine = world.engine(3 + u128::from(n));
    }
    let run = engine.lease_one().await;
    assert_ne!(run.id, behind, "a run lost its slot in the handover");
    engine.complete(&run).await;
    assert_eq!(engine.drain().await, [behind]);
    world.check_quiet().await;
}

/// spec B167: any number of runs is driven at the same time.
pub async fn different_runs_are_driven_side_by_side(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let a = world.drive("order", json!({})).await;
    let b = world.drive("order", json!({})).await;
    for (run, id) in [(&a, "one"), (&b, "one"), (&a, "two"), (&b, "two")] {
        assert_eq!(world.record(run, id, json!(1)).await, Ok(Recorded::GoOn));
    }
    world.complete(&b).await;
    world.complete(&a).await;
    world.check_quiet().await;
}

/// spec B180: the effect key consists of the ids of the run and the step, and is the same for every
/// worker and attempt.
pub async fn a_run_keeps_its_id_over_workers_and_attempts(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let id = world.start("order", json!({})).await;
    let first = world.lease_one().await;
    world.lose(world.engine).await;
    let world = world.engine(2);
    let second = world.lease_one().await;
    let then = Then::Suspend(vec![again("pay", 5)]);
    world.report(&second, Vec::new(), then).await.expect("the lease is good");
    world.tick(5).await;
    let third = world.lease_one().await;
    assert!([first.id, second.id, third.id].iter().all(|run| *run == id));
    assert_eq!([first.fence, second.fence, third.fence], [1, 2, 3]);
}
