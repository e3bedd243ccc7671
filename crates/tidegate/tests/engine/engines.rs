//! Several engines on one store: leases, lost leases, shutdown, and lost answers of the store.

use std::{
    collections::BTreeSet,
    sync::{Arc, mpsc},
    time::Duration,
};

use serde_json::{Value, json};
use tidegate::{
    Concurrency, Ctx, Engine, EngineBuilder, Error, Retry, RunId, StepError, Workflow, new_event,
    testing::TestHarness,
};
use tidegate_core::row::Row;
use tidegate_store::{Store, SystemClock};

use crate::{
    faults::{Beats, Failure, Faults},
    stores,
    words::{Door, Journal, Marks, burst, ms, secs, sharing, start, state, states, steps, work},
};

/// A run that is cancelled through another engine stops soon: the other engine wakes the engine
/// that drives the run, long before its next poll.
pub(crate) async fn a_run_that_is_cancelled_elsewhere_stops_soon(
    harness: &TestHarness,
    faults: &Faults,
) {
    let journal = Journal::new(harness);
    let first = harness.engine().workflow(long(&journal)).start().await.unwrap();
    let run = start(&first, "long", json!(null)).await;
    let second = harness.engine().start().await.unwrap();
    harness.advance(secs(101)).await;
    let before = faults.wakes_given();
    second.cancel(run, "by hand").await.unwrap();
    assert_eq!(faults.wakes_given() - before, 1);
    harness.advance(secs(1)).await;
    assert_eq!(journal.take(), ["in", "out"]);
}

/// A transaction that changes definitions has no room for a lease. The lease is requested in the
/// next transaction at once, without a wake-up or a poll.
pub(crate) async fn a_lease_that_does_not_fit_is_repeated_at_once(
    harness: &TestHarness,
    faults: &Faults,
) {
    faults.deafen();
    let journal = Journal::new(harness);
    let job = |version| work(&journal, "job", ms(0)).version(version);
    let engine = harness.engine().workflow(job(1)).workflow(job(2)).start().await.unwrap();
    harness.settle().await;
    let (go, sender) = (faults.hold(), engine.clone());
    let first = tokio::spawn(async move { sender.send("first", json!({})).await });
    faults.holds().await;
    let sender = engine.clone();
    let together = tokio::spawn(async move {
        let release = sender.release("default", "job", 1);
        tokio::join!(sender.send("job", json!({ "n": 0 })), release)
    });
    while engine.pending() < 2 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    let (sent, released) = together.await.unwrap();
    let (run, release) = (sent.unwrap().run().unwrap(), released.unwrap());
    assert_eq!(release.older, 1, "the run must be created in the transaction of the release");
    harness.settle().await;
    assert_eq!(harness.completed(&engine, run).await["n"], json!(0));
}

/// An engine that detects a dead engine takes over all of its runs at once, however many there are.
pub(crate) async fn all_runs_of_a_dead_engine_are_taken_over_at_once(harness: &TestHarness) {
    let (journal, count) = (Journal::new(harness), 300);
    let build = || sharing(harness).workers(count).workflow(work(&journal, "long", secs(10_000)));
    let first = build().start().await.unwrap();
    burst(&first, "long", count).await;
    harness.settle().await;
    assert_eq!(journal.inside("long"), count);
    harness.crash(&first).await;
    let _second = build().start().await.unwrap();
    // The clock is advanced in small steps, because a later poll would also find a run that was
    // missed.
    for _ in 0..1000 {
        harness.advance(ms(100)).await;
        if journal.inside("long") > 0 {
            break;
        }
    }
    assert_eq!(journal.inside("long"), count);
}

/// Guard that records its drop in the journal.
struct Leaves<'a>(&'a Journal);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.note("out");
    }
}

/// A workflow that records when its step starts and ends, and takes ten minutes.
fn long(journal: &Journal) -> Workflow<Value, ()> {
    let journal = journal.clone();
    Workflow::new("long", move |ctx: Ctx, _: Value| {
        let journal = journal.clone();
        async move {
            let step = ctx.step("step", || async {
                let _inside = Leaves(&journal);
                journal.note("in");
                journal.spend(secs(600)).await;
                Ok(())
            });
            step.await
        }
    })
}

/// spec B168, B173, B174, N36: an engine that cannot renew its lease stops its runs before the
/// lease expires. Another engine takes them over afterwards, and unfinished work of the first is
/// not recorded. When the first engine can renew again, it continues under a new engine id.
pub(crate) async fn an_engine_that_cannot_renew_stops_in_time(
    harness: &TestHarness,
    faults: &Faults,
) {
    let journal = Journal::new(harness);
    let first = sharing(harness).workflow(long(&journal)).start().await.unwrap();
    let run = start(&first, "long", json!(null)).await;
    harness.settle().await;
    let second = sharing(harness).workflow(long(&journal)).start().await.unwrap();
    harness.advance(secs(15)).await;
    let name = faults.engines()[1];
    faults.set_beats(Beats::FailBut(name));
    harness.advance(secs(17)).await;
    assert_eq!(first.driven(), 1, "the lease renewed at 10 s is valid, so the run must be driven");
    harness.advance(secs(18)).await;
    let times = journal.take_times();
    let [(0, _), (out, _), (again, _)] = times[..] else { panic!("{times:?}") };
    assert!((32_000..40_000).contains(&out), "stopped at {out}");
    assert!((40_000..=50_000).contains(&again), "the run was taken over at {again} ms");
    assert_eq!((first.driven(), second.driven()), (0, 1));
    harness.advance(secs(600)).await;
    harness.completed(&second, run).await;
    let records = steps(harness, run).await;
    assert_eq!(
        (records.len(), records[0].fence),
        (1, 2),
        "only the second engine must record the step"
    );
    faults.set_beats(Beats::Fine);
    harness.advance(secs(10)).await;
    second.shutdown().await;
    start(&first, "long", json!(null)).await;
    harness.settle().await;
    assert_eq!(first.driven(), 1);
}

/// spec B172, G6: a dead engine is detected by its heartbeat, which counts for all of its runs. So
/// an activation may take longer than the lease.
pub(crate) async fn an_activation_may_outlast_the_lease(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let first = sharing(harness).workflow(long(&journal)).start().await.unwrap();
    let second = sharing(harness).workflow(long(&journal)).start().await.unwrap();
    let run = start(&first, "long", json!(null)).await;
    harness.advance(secs(600)).await;
    harness.completed(&second, run).await;
    assert_eq!(journal.take_times(), [(0, "in".to_owned()), (600_000, "out".to_owned())]);
}

/// spec B163, B164, B165, B167, B182: whatever wakes a run, and however often, only one engine
/// drives it at a time. Other runs do not wait for it.
pub(crate) async fn a_run_is_driven_by_one_at_a_time(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let job = |journal: &Journal| {
        let journal = journal.clone();
        Workflow::new("job", move |ctx: Ctx, n: u64| {
            let journal = journal.clone();
            async move {
                let scope = format!("run {n}");
                for round in 0..5 {
                    let nap = ctx.sleep(format!("nap {round}"), secs(10));
                    let word = ctx.wait_for_signal::<u64>(format!("word {round}"), "word");
                    tokio::try_join!(nap, word)?;
                    let step = ctx.step(format!("step {round}"), || async {
                        journal.work("all", "", Duration::ZERO).await;
                        journal.work(&scope, round, secs(1)).await;
                        Ok(())
                    });
                    step.await?;
                }
                Ok(())
            }
        })
    };
    let mut engines = Vec::new();
    for _ in 0..3 {
        engines.push(sharing(harness).workflow(job(&journal)).start().await.unwrap());
    }
    let mut runs = Vec::new();
    for n in 0..4 {
        runs.push(start(&engines[0], "job", json!(n)).await);
    }
    for round in 0..5 {
        harness.advance(ms(9_999)).await;
        for engine in &engines {
            for run in &runs {
                // Pause and resume happen at the same instant as the sweeps of all three engines.
                let (paused, resumed) = tokio::join!(engine.pause(*run), engine.resume(*run));
                paused.and(resumed).unwrap();
            }
        }
        let signals = async {
            for (n, run) in runs.iter().enumerate() {
                engines[n % 3].signal(*run, "word", round).await.unwrap();
            }
        };
        tokio::join!(harness.advance(ms(1)), signals);
        harness.advance(secs(2)).await;
    }
    for (n, run) in runs.into_iter().enumerate() {
        harness.completed(&engines[0], run).await;
        assert_eq!(journal.most(&format!("run {n}")), 1);
    }
    assert_eq!(journal.take().len(), 4 * 5 * 2, "each step must be executed once");
}

/// spec N57, N79, B169: a shutdown hands over its runs at once: another engine continues them
/// without delay, no recorded step is executed again, and no run is lost, not even one that the
/// engine was about to lease.
pub(crate) async fn a_shutdown_hands_runs_over(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let job = || {
        let (door, marks) = (door.clone(), marks.clone());
        Workflow::new("job", move |ctx: Ctx, _: Value| {
            let (door, marks) = (door.clone(), marks.clone());
            async move {
                ctx.step("one", || async { Ok(marks.mark("one")) }).await?;
                let two = ctx.step("two", || async {
                    marks.mark("two");
                    door.pass().await;
                    Ok(())
                });
                two.await
            }
        })
    };
    let first = sharing(harness).workflow(job()).start().await.unwrap();
    burst(&first, "job", 30).await;
    harness.settle().await;
    assert_eq!(first.driven(), 30);
    let (before, second) = (harness.now(), sharing(harness).workflow(job()).start().await.unwrap());
    tokio::join!(burst(&second, "job", 30), first.shutdown());
    harness.settle().await;
    assert_eq!((first.driven(), second.driven(), harness.now()), (0, 60, before));
    let rows = harness.store().dump().await.unwrap();
    let runs = rows.iter().filter_map(Row::as_run);
    let owners: BTreeSet<_> = runs.clone().map(|run| run.owner).collect();
    assert_eq!(owners.len(), 1, "the second engine must own all runs");
    assert!(runs.clone().all(|run| run.deaths == 0));
    let engines = rows.iter().filter(|row| matches!(row, Row::Engine(_))).count();
    assert_eq!(engines, 1, "the first engine must have removed its row");
    door.open();
    harness.settle().await;
    assert!(states(harness, "job").await.iter().all(|state| *state == "completed"));
    assert_eq!(marks.count("one"), 60, "a recorded step was executed again");
    let refused = first.send("job", json!(null)).await.unwrap_err();
    assert!(matches!(refused, Error::ShutDown), "{refused}");
}

/// spec N79: a drain takes no more runs and lets the driven ones continue until its deadline.
/// Unfinished runs are handed over.
pub(crate) async fn a_drain_has_a_deadline(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let builder = |harness: &TestHarness| {
        let (short, long) = (work(&journal, "short", secs(5)), work(&journal, "long", secs(60)));
        sharing(harness).workflow(short).workflow(long)
    };
    let first = builder(harness).start().await.unwrap();
    let short = start(&first, "short", json!({ "n": 1 })).await;
    let long = start(&first, "long", json!({ "n": 2 })).await;
    harness.settle().await;
    let second = builder(harness).start().await.unwrap();
    let drain = async {
        first.drain(secs(10)).await;
        journal.note("drained");
    };
    let story = async {
        harness.advance(secs(1)).await;
        start(&second, "short", json!({ "n": 3 })).await;
        harness.advance(secs(3)).await;
        assert_eq!((first.driven(), second.driven()), (2, 1));
        harness.advance(secs(2)).await;
        harness.completed(&first, short).await;
        assert_eq!(first.driven(), 1);
        harness.advance(secs(4)).await;
    };
    tokio::join!(drain, story);
    harness.settle().await;
    assert_eq!((first.driven(), second.driven()), (0, 1));
    harness.advance(secs(60)).await;
    harness.completed(&second, long).await;
    let times = journal.take_times();
    let times: Vec<_> = times.iter().map(|(at, line)| (*at, line.as_str())).collect();
    assert_eq!(times[..3], [(0, "1"), (0, "2"), (1_000, "3")]);
    assert_eq!(times[3..].iter().map(|(at, _)| *at).collect::<Vec<_>>(), [10_000; 2]);
}

/// An engine that has handed over its runs takes no more, and still answers calls until it is shut
/// down. An immediate hand-over ends a slower one that is in progress.
pub(crate) async fn an_engine_answers_after_it_has_handed_over(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let builder =
        |harness: &TestHarness| sharing(harness).workflow(work(&journal, "job", secs(60)));
    let first = builder(harness).start().await.unwrap();
    let run = start(&first, "job", json!({ "n": 1 })).await;
    harness.settle().await;
    assert!(!first.is_draining());
    tokio::select! {
        biased;
        () = first.hand_over(secs(600)) => panic!("hand_over returned before its run has ended"),
        () = harness.advance(secs(1)) => {}
    }
    assert_eq!((first.is_draining(), first.driven()), (true, 1), "the run continues");
    first.hand_over(Duration::ZERO).await;
    assert_eq!(first.driven(), 0);
    let late = start(&first, "job", json!({ "n": 2 })).await;
    harness.settle().await;
    assert_eq!(first.driven(), 0, "the engine must take no more runs after hand_over");
    let second = builder(harness).start().await.unwrap();
    harness.settle().await;
    assert_eq!(second.driven(), 2);
    harness.advance(secs(60)).await;
    for run in [run, late] {
        harness.completed(&first, run).await;
    }
    first.shutdown().await;
}

/// spec P2: an engine whose workers are all busy leaves runs to other engines. An engine with 0
/// workers drives none.
pub(crate) async fn a_busy_engine_leaves_runs_to_others(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = |workers: usize| {
        sharing(harness).workers(workers).workflow(work(&journal, "job", secs(10))).start()
    };
    let front = engine(0).await.unwrap();
    burst(&front, "job", 6).await;
    harness.advance(secs(5)).await;
    assert_eq!(front.driven(), 0);
    let (one, two) = (engine(1).await.unwrap(), engine(2).await.unwrap());
    harness.advance(secs(1)).await;
    assert_eq!((front.driven(), one.driven(), two.driven()), (0, 1, 2));
    harness.advance(secs(20)).await;
    assert_eq!(states(harness, "job").await, ["completed"; 6]);
    assert_eq!(journal.most("job"), 3);
}

/// The ways in which a run of `any` can wait.
const ANY: [&str; 6] = ["sleep", "event", "signal", "child", "retry", "line"];

fn any(marks: &Marks) -> [Workflow<String, String>; 2] {
    let seen = marks.clone();
    let any = Workflow::new("any", move |ctx: Ctx, what: String| {
        let seen = seen.clone();
        async move {
            ctx.step("first", || async { Ok(seen.mark(format!("first {what}"))) }).await?;
            let flaky = ctx.attempt("flaky") == 1;
            match what.as_str() {
                "sleep" => ctx.sleep("wait", secs(60)).await?,
                "event" => drop(ctx.wait_for_event::<Value>("wait", "go").await?),
                "signal" => drop(ctx.wait_for_signal::<Value>("wait", "go").await?),
                "child" => drop(ctx.invoke::<_, String>("wait", "child", "nobody").await?),
                "retry" => {
                    let step = ctx.step("flaky", || async move {
                        if flaky { Err(StepError::new("not yet")) } else { Ok(()) }
                    });
                    step.retry(Retry::attempts(2).fixed(secs(60))).await?;
                }
                _ => ctx.sleep("wait", secs(3600)).await?,
            }
            ctx.step("last", || async { Ok(seen.mark(format!("last {what}"))) }).await?;
            Ok(what)
        }
    });
    let child = Workflow::new("child", |ctx: Ctx, what: String| async move {
        ctx.sleep("wait", secs(60)).await?;
        Ok(what)
    });
    let line = Concurrency::limit(1).key("line").for_the_whole_run();
    [any, child.concurrency(line)]
}

/// spec N57: a new process with the same store and definitions continues every run, whatever the
/// run waits for, including paused runs and runs that never started.
pub(crate) async fn a_fresh_engine_goes_on_with_every_run(harness: &TestHarness) {
    let marks = Marks::default();
    let engine = |workers: usize| {
        let [any, child] = any(&marks);
        harness.engine().workers(workers).workflow(any).workflow(child).start()
    };
    let before = engine(100).await.unwrap();
    let mut runs: Vec<RunId> = Vec::new();
    for what in ANY {
        runs.push(start(&before, "any", json!(what)).await);
    }
    let paused = start(&before, "any", json!("paused")).await;
    harness.settle().await;
    before.pause(paused).await.unwrap();
    before.shutdown().await;
    // This run is accepted by an engine without workers.
    let front = engine(0).await.unwrap();
    let fresh = start(&front, "any", json!("sleep")).await;
    front.shutdown().await;
    let after = engine(100).await.unwrap();
    after.send("go", json!(null)).await.unwrap();
    after.signal(runs[2], "go", json!(null)).await.unwrap();
    harness.advance(secs(70)).await;
    for (run, what) in runs.iter().zip(ANY).take(5) {
        assert_eq!(harness.completed(&after, *run).await, json!(what));
    }
    assert_eq!(harness.completed(&after, fresh).await, json!("sleep"));
    assert_eq!(state(harness, "any", runs[5]).await, "waiting");
    after.resume(paused).await.unwrap();
    harness.advance(secs(3600)).await;
    harness.completed(&after, paused).await;
    harness.completed(&after, runs[5]).await;
    for what in ANY.into_iter().skip(1) {
        assert_eq!(marks.count(&format!("first {what}")), 1, "{what}");
        assert_eq!(marks.count(&format!("last {what}")), 1, "{what}");
    }
}

/// Adds the workflow `order`: it pays, sends an event, invokes another workflow, and sleeps in
/// between.
fn shop(builder: EngineBuilder, marks: &Marks) -> EngineBuilder {
    let (paid, mailed) = (marks.clone(), marks.clone());
    let order = Workflow::new("order", move |ctx: Ctx, n: u64| {
        let paid = paid.clone();
        async move {
            ctx.step("pay", || async { Ok(paid.mark(format!("pay {n}"))) }).await?;
            ctx.send_event("tell", "paid", n).await?;
            ctx.sleep("nap", secs(5)).await?;
            ctx.invoke::<_, u64>("pack", "pack", n).await
        }
    });
    let mail = Workflow::new("mail", move |ctx: Ctx, n: u64| {
        let mailed = mailed.clone();
        async move { ctx.step("mail", || async { Ok(mailed.mark(format!("mail {n}"))) }).await }
    });
    let pack = Workflow::new("pack", |_: Ctx, n: u64| async move { Ok(n) });
    let mail = mail.on_event("paid").concurrency(Concurrency::limit(1));
    builder.workflow(order).workflow(mail).workflow(pack)
}

/// spec B130, B181, exact: whichever transaction fails, or whichever answer is lost, no run and no
/// step is lost or executed twice. A client repeats its request with the same `dedupeId`.
pub(crate) async fn a_lost_answer_neither_loses_nor_doubles(
    harness: &TestHarness,
    faults: &Faults,
) {
    let marks = Marks::default();
    let builder = harness.engine().lease_ttl(secs(30)).poll_interval(secs(10));
    let engine = shop(builder, &marks).start().await.unwrap();
    let mut orders = 0;
    for failure in [Failure::BeforeCommit, Failure::AfterCommit, Failure::Unavailable] {
        for after in 0.. {
            faults.fail(after, failure);
            let mut event = new_event("order", orders).unwrap();
            event.dedupe_id = Some(format!("order {orders}"));
            while engine.send_all(vec![event.clone()]).await.is_err() {}
            harness.advance(secs(60)).await;
            orders += 1;
            let all = [states(harness, "order"), states(harness, "mail"), states(harness, "pack")];
            for states in all {
                let states = states.await;
                assert_eq!(
                    states,
                    vec!["completed"; orders],
                    "runs have not all completed after {failure:?} of commit {after}"
                );
            }
            let done = marks.all();
            let once: BTreeSet<_> = done.iter().collect();
            assert_eq!(
                (done.len(), once.len()),
                (orders * 2, orders * 2),
                "{failure:?} of commit {after}"
            );
            if !faults.has_failed() {
                assert!(after > 5, "the workload must have more than five transactions");
                break;
            }
        }
    }
}

/// The same on the system clock, with real concurrency.
mod live {
    use super::*;

    const TTL: Duration = Duration::from_secs(3);

    /// Polls until the condition holds.
    async fn until(mut so: impl AsyncFnMut() -> bool) {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        while !so().await {
            ticks.tick().await;
        }
    }

    /// spec B163, B166, B174: an engine loses its lease and then leases the same run again. The new
    /// activation waits for the handler of the first lease, which cannot be stopped because it
    /// blocks.
    async fn overlapping_leases(store: Arc<dyn Store>) {
        let (faults, marks) = (Arc::new(Faults::new(store)), Marks::default());
        let (unblock, blocked) = mpsc::channel::<()>();
        let (seen, blocked) = (marks.clone(), Arc::new(std::sync::Mutex::new(blocked)));
        let job = Workflow::new("job", move |ctx: Ctx, _: Value| {
            let (seen, blocked) = (seen.clone(), blocked.clone());
            async move {
                let step = ctx.step("step", || async {
                    let time = seen.mark("in");
                    if time == 1 {
                        blocked.lock().unwrap().recv().unwrap();
                    }
                    seen.mark("out");
                    Ok(time)
                });
                step.await
            }
        });
        let builder = Engine::builder(faults.clone()).workflow(job).lease_ttl(TTL);
        let engine = builder.poll_interval(TTL / 6).start().await.unwrap();
        let run = start(&engine, "job", json!(null)).await;
        until(async || marks.count("in") == 1).await;
        faults.set_beats(Beats::Hang(*faults.engines().last().unwrap()));
        let fence = async || engine.look_up(run).await.unwrap().0.map_or(0, |run| run.fence);
        until(async || fence().await >= 2).await;
        let mut looks = 0;
        until(async || {
            looks += 1;
            looks == 20
        })
        .await;
        assert_eq!(marks.all(), ["in"], "the second activation must wait for the first");
        unblock.send(()).unwrap();
        assert_eq!(engine.output::<usize>(run).await.unwrap().unwrap(), 2);
        assert_eq!(marks.all(), ["in", "out", "in", "out"]);
        engine.shutdown().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn overlapping_leases_are_driven_one_after_another_on_memory() {
        overlapping_leases(stores::open_memory(Arc::new(SystemClock)).await.unwrap()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn overlapping_leases_are_driven_one_after_another_on_sqlite() {
        overlapping_leases(stores::open_sqlite(Arc::new(SystemClock)).await.unwrap()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn overlapping_leases_are_driven_one_after_another_on_postgres() {
        let Some(store) = stores::open_postgres(Arc::new(SystemClock)).await else { return };
        overlapping_leases(store).await;
    }
}
