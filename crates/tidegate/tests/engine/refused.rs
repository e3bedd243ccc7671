//! A command whose rows the store refuses fails alone: other commands of its transaction or sweep
//! are not affected. It is retried if no caller would retry it.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate::{
    Batch, Ctx, Debounce, Engine, Error, Rate, Reaction, ReactionCtx, RunId, StreamEvent, Workflow,
    events, testing::TestHarness,
};
use tidegate_core::{
    reads::Change,
    row::{Phase, Row, Run},
};
use tidegate_store::{Database, StoreError};

use crate::{
    faults::{Faults, Flaw},
    reactions::{append_quietly, looking, numbered},
    words::{
        Door, Journal, Marks, Warnings, burst, ms, recorded, secs, sharing, start, state, states,
        work,
    },
};

/// Name of the workflow whose rows the store refuses.
const CURSED: &str = "cursed";

/// Returns the run of `cursed` that a change writes.
fn run_of(change: &Change) -> Option<&Run> {
    let (Change::Insert(row) | Change::Update(row)) = change else { return None };
    row.as_run().filter(|run| run.workflow == CURSED)
}

/// A workflow that waits for the signal.
fn waiter() -> Workflow<Value, Option<Value>> {
    Workflow::new("waiter", async |ctx: Ctx, _: Value| ctx.wait_for_signal("wait", "go").await)
}

/// Number of commands of other kinds in the same transaction.
const OTHERS: usize = 3;

/// Sends events in one transaction with commands of other kinds. The store refuses a row of each
/// event marked as `cursed`. Returns the answers to the events.
async fn send_together(
    faults: &Faults,
    engine: &Engine,
    data: Vec<Value>,
    (signalled, cancelled): (RunId, RunId),
) -> Vec<Result<RunId, Error>> {
    let (go, expected) = (faults.hold(), data.len() + OTHERS);
    let first = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.send("first", json!({})).await })
    };
    faults.holds().await;
    let together = {
        let engine = engine.clone();
        tokio::spawn(async move {
            let sends = data.into_iter().map(|data| engine.send("job", data));
            let log = vec![events::new("n", json!(1)).unwrap()];
            let (streams, done) = (engine.streams(), json!("done"));
            tokio::join!(
                join_all(sends),
                engine.signal(signalled, "go", done),
                engine.cancel(cancelled, "by hand"),
                streams.commit("log", log, None),
            )
        })
    };
    while engine.pending() < expected {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
    let (sent, signal, cancel, commit) = together.await.unwrap();
    signal.unwrap();
    cancel.unwrap();
    commit.unwrap();
    sent.into_iter().map(|posted| posted.map(|it| it.run().unwrap())).collect()
}

/// A command with a row that the store refuses fails alone. All other commands of its transaction
/// are executed once, and the runs that they made ready are driven. This holds for every position,
/// number and kind of refused commands.
pub(crate) async fn a_refused_row_takes_no_neighbour_along(harness: &TestHarness, faults: &Faults) {
    let journal = Journal::new(harness);
    let job = work(&journal, "job", ms(0));
    let engine = harness.engine().workflow(job).workflow(waiter()).start().await.unwrap();
    faults.occupy().await;
    let (sends, mut done, mut rounds) = (11, 0, 0);
    let all: Vec<usize> = (0..sends).collect();
    for flaw in Flaw::ALL {
        for cursed in [&[0][..], &[5], &[10], &[0, 10], &[2, 3, 7], &all] {
            let case = format!("{flaw:?}, {cursed:?}");
            let waiting = start(&engine, "waiter", json!({})).await;
            let doomed = start(&engine, "waiter", json!({})).await;
            harness.settle().await;
            let data = all.iter().map(|n| json!({ "n": n, "cursed": cursed.contains(n) }));
            faults.curse(flaw, |change| {
                let Change::Insert(Row::Event(event)) = change else { return false };
                event.data.as_str().contains("\"cursed\":true")
            });
            let answers = send_together(faults, &engine, data.collect(), (waiting, doomed)).await;
            let refused = faults.lift_curse();
            assert_eq!(
                refused[0], sends,
                "{case}: the first refused transaction must contain all events"
            );
            for (n, answer) in answers.iter().enumerate() {
                match answer {
                    Ok(_) => assert!(!cursed.contains(&n), "{case}: event {n} was accepted"),
                    Err(Error::Store(error)) => {
                        let data = matches!(**error, StoreError::Data(_));
                        assert!(cursed.contains(&n) && data, "{case}: event {n} failed: {error}");
                    }
                    Err(error) => panic!("{case}: event {n} failed: {error}"),
                }
            }
            harness.settle().await;
            let mut driven = journal.take();
            driven.sort_by_key(|n| n.parse::<usize>().unwrap());
            let good: Vec<_> = all.iter().filter(|n| !cursed.contains(n)).collect();
            let expected: Vec<_> = good.iter().map(ToString::to_string).collect();
            assert_eq!(driven, expected, "{case}: each accepted event must run once");
            done += good.len();
            assert_eq!(states(harness, "job").await, vec!["completed"; done], "{case}");
            assert_eq!(
                recorded(harness, "job").await,
                done,
                "{case}: each event must be recorded once"
            );
            assert_eq!(harness.completed(&engine, waiting).await, json!("done"), "{case}");
            assert_eq!(state(harness, "waiter", doomed).await, "cancelled", "{case}");
            let head = engine.streams().head("log").await.unwrap().unwrap();
            rounds += 1;
            assert_eq!(
                head.version + 1,
                rounds,
                "{case}: the stream must have one commit per round"
            );
        }
    }
}

/// Runs that a split transaction made ready are leased with it, without a wake-up.
pub(crate) async fn the_runs_of_a_split_transaction_are_driven_at_once(
    harness: &TestHarness,
    faults: &Faults,
) {
    faults.deafen();
    let journal = Journal::new(harness);
    let engine = harness.engine().workflow(work(&journal, "job", ms(0))).start().await.unwrap();
    harness.settle().await;
    faults.curse(Flaw::Nul, |change| {
        let Change::Insert(Row::Event(event)) = change else { return false };
        event.data.as_str().contains("\"cursed\":true")
    });
    let sends = (0..8).map(|n| engine.send("job", json!({ "n": n, "cursed": n == 2 })));
    let answers = join_all(sends).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1);
    assert!(faults.lift_curse()[0] > 1, "the refused transaction must contain several events");
    harness.settle().await;
    assert_eq!(states(harness, "job").await, ["completed"; 7]);
}

/// If the store refuses the report of a run, the worker is released exactly once.
pub(crate) async fn a_refused_report_frees_one_worker(harness: &TestHarness, faults: &Faults) {
    let journal = Journal::new(harness);
    let cursed = work(&journal, CURSED, ms(0));
    let engine =
        harness.engine().workers(1).workflow(cursed).workflow(work(&journal, "job", secs(10)));
    let engine = engine.start().await.unwrap();
    faults.curse(Flaw::Nul, |change| matches!(change, Change::Insert(Row::Step(_))));
    for n in 0..2 {
        let run = start(&engine, CURSED, json!({ "n": n })).await;
        harness.settle().await;
        assert_eq!(state(harness, CURSED, run).await, "failed");
    }
    faults.lift_curse();
    for n in 0..3 {
        start(&engine, "job", json!({ "n": n })).await;
    }
    harness.advance(secs(35)).await;
    assert_eq!(states(harness, "job").await, ["completed"; 3]);
    assert_eq!(journal.most("job"), 1);
}

/// A transaction may contain a lease in addition to the commands of callers. If the store refuses
/// the lease's rows, the commands are executed nevertheless.
pub(crate) async fn a_lease_that_is_refused_fails_no_command(
    harness: &TestHarness,
    faults: &Faults,
) {
    let journal = Journal::new(harness);
    let engine = sharing(harness).workflow(work(&journal, CURSED, ms(0))).start().await.unwrap();
    harness.settle().await;
    faults.curse(Flaw::Nul, |change| run_of(change).is_some_and(|run| run.phase == Phase::Driven));
    let runs = [0, 1].map(|n| start(&engine, CURSED, json!({ "n": n })));
    let runs = join_all(runs).await;
    harness.settle().await;
    assert_eq!(states(harness, CURSED).await, ["queued"; 2]);
    assert!(!faults.lift_curse().is_empty(), "no transaction with the lease was attempted");
    harness.advance(secs(2)).await;
    for (n, run) in runs.into_iter().enumerate() {
        assert_eq!(harness.completed(&engine, run).await["n"], json!(n));
    }
}

/// Timers of all kinds are due at the same time, after two that fail. They fire on time, the two
/// failing ones as soon as the store accepts them, and the error is logged meanwhile.
pub(crate) async fn one_failing_command_stops_no_sweep(harness: &TestHarness, faults: &Faults) {
    let (log, _listens) = Warnings::listen();
    let second = secs(1);
    let window = |name: &str| {
        Workflow::new(name, async |_: Ctx, _: Value| Ok(())).debounce(Debounce::quiet(secs(1)))
    };
    let nap = |name: &str| {
        Workflow::new(name, async |ctx: Ctx, _: Value| ctx.sleep("nap", secs(1)).await)
    };
    let batch = Workflow::new("batch", async |_: Ctx, _: Vec<Value>| Ok(()))
        .batch(Batch::of(10).within(second));
    let throttle =
        Workflow::new("throttle", async |_: Ctx, _: Value| Ok(())).throttle(Rate::of(1, second));
    let patient = Workflow::new("patient", async |ctx: Ctx, _: Value| {
        ctx.wait_for_event::<Value>("wait", "never").timeout(secs(1)).await
    });
    let slow = Workflow::new("slow", async |ctx: Ctx, _: Value| ctx.sleep("nap", secs(9)).await)
        .timeout(second);
    let engine = sharing(harness).workflow(window(CURSED)).workflow(nap("cursed.nap"));
    let engine = engine.workflow(window("window")).workflow(nap("nap")).workflow(batch);
    let engine = engine.workflow(throttle).workflow(patient).workflow(slow);
    let engine = engine.start().await.unwrap();
    let others = ["window", "nap", "batch", "throttle", "throttle", "patient", "slow"];
    for name in [CURSED, "cursed.nap"].into_iter().chain(others) {
        engine.send(name, json!({})).await.unwrap();
    }
    harness.advance(ms(999)).await;
    faults.curse(Flaw::Nul, |change| {
        let flushed = matches!(change, Change::Insert(_)) && run_of(change).is_some();
        let Change::Update(Row::Run(run)) = change else { return flushed };
        run.workflow == "cursed.nap" && run.phase != Phase::Waiting
    });
    assert_eq!(states(harness, "window").await, [""; 0], "no window may fire before its time");
    harness.advance(secs(5)).await;
    for name in ["window", "nap", "batch", "throttle", "patient"] {
        let count = others.iter().filter(|it| **it == name).count();
        assert_eq!(states(harness, name).await, vec!["completed"; count], "{name}");
    }
    assert_eq!(states(harness, "slow").await, ["failed"]);
    assert_eq!(states(harness, CURSED).await, [""; 0]);
    assert_eq!(states(harness, "cursed.nap").await, ["waiting"]);
    assert!(log.count("sweep failed, retrying") > 1, "a failed sweep must be logged and retried");
    faults.lift_curse();
    harness.advance(secs(1)).await;
    for name in [CURSED, "cursed.nap"] {
        assert_eq!(states(harness, name).await, ["completed"], "{name}: once");
    }
}

/// A schedule that cannot be planned, or whose occurrence fails, does not delay other schedules. It
/// catches up as soon as the store accepts it.
pub(crate) async fn one_failing_schedule_stops_no_other(harness: &TestHarness, faults: &Faults) {
    let (log, _listens) = Warnings::listen();
    let journal = Journal::new(harness);
    let every = |name: &str| {
        let (journal, noted) = (journal.clone(), name.to_owned());
        Workflow::new(name, move |_: Ctx, _: Value| {
            journal.note(&noted);
            async { Ok(()) }
        })
        .cron("* * * * *", "UTC")
    };
    let planned = |change: &Change| matches!(change, Change::Insert(Row::Schedule(row)) if row.workflow == CURSED);
    faults.curse(Flaw::Nul, planned);
    let engine = sharing(harness).workflow(every("before")).workflow(every(CURSED));
    let engine = engine.workflow(every("later")).start().await.unwrap();
    harness.advance(secs(65)).await;
    assert_eq!(
        journal.take(),
        ["before", "later"],
        "only the schedules that could be planned must have started runs"
    );
    assert!(log.count("planning schedule failed, retrying") > 1, "must be logged and retried");
    faults.curse(Flaw::Nul, |change| run_of(change).is_some());
    harness.advance(secs(60)).await;
    assert_eq!(
        journal.take(),
        ["before", "later"],
        "a failing occurrence must not delay other schedules"
    );
    assert!(log.count("starting occurrence failed, retrying") > 1, "must be logged and retried");
    faults.lift_curse();
    harness.advance(secs(1)).await;
    assert_eq!(journal.take(), [CURSED], "the failed occurrence must start once");
    harness.advance(secs(60)).await;
    let mut all = journal.take();
    all.sort();
    assert_eq!(all, ["before", CURSED, "later"]);
    engine.shutdown().await;
}

/// A failed occurrence is retried soon, even if the engine neither polls nor is woken.
pub(crate) async fn a_failed_occurrence_waits_for_no_poll(harness: &TestHarness, faults: &Faults) {
    faults.deafen();
    let tick = Workflow::new(CURSED, async |_: Ctx, _: Value| Ok(())).cron("* * * * *", "UTC");
    let engine = harness.engine().lease_ttl(secs(30)).workflow(tick).start().await.unwrap();
    faults.curse(Flaw::Nul, |change| run_of(change).is_some());
    harness.advance(secs(62)).await;
    assert_eq!(states(harness, CURSED).await, [""; 0]);
    assert!(faults.lift_curse().len() > 1, "it is retried");
    harness.advance(secs(1)).await;
    assert_eq!(states(harness, CURSED).await, ["completed"]);
    engine.shutdown().await;
}

/// If one run of a dead engine cannot be taken over, all other runs of this engine and of other
/// dead engines are still taken over, however many there are.
pub(crate) async fn one_run_that_stays_keeps_no_other_from_a_takeover(
    harness: &TestHarness,
    faults: &Faults,
) {
    const RUNS: usize = 300;
    let (door, marks) = (Door::closed(), Marks::default());
    let job = |name: &str| {
        let (door, marks, marked) = (door.clone(), marks.clone(), name.to_owned());
        Workflow::new(name, move |_: Ctx, _: Value| {
            marks.mark(marked.clone());
            let door = door.clone();
            async move {
                door.pass().await;
                Ok(())
            }
        })
    };
    let engine = |workers| {
        let engine = harness.engine().lease_ttl(secs(3)).poll_interval(secs(1)).workers(workers);
        let engine = engine.workflow(job(CURSED));
        engine.workflow(job("job")).start()
    };
    let mut dead = Vec::new();
    for runs in [RUNS, 1, 1] {
        // More workers than runs, because some are reserved for workflows with few runs.
        let engine = engine(2 * runs + 20).await.unwrap();
        start(&engine, CURSED, json!({})).await;
        let events = (0..runs).map(|n| tidegate::new_event("job", json!(n)).unwrap());
        engine.send_all(events.collect()).await.unwrap();
        harness.settle().await;
        assert_eq!(engine.driven(), runs + 1);
        harness.crash(&engine).await;
        dead.push(engine);
    }
    faults.curse(Flaw::Nul, |change| run_of(change).is_some_and(|run| run.takeovers > 0));
    door.open();
    let (log, _listens) = Warnings::listen();
    let heir = engine(2 * RUNS).await.unwrap();
    harness.advance(secs(9)).await;
    assert_eq!(states(harness, "job").await, vec!["completed"; RUNS + 2]);
    assert_eq!(
        states(harness, CURSED).await,
        ["running"; 3],
        "the refused runs must not be taken over"
    );
    assert!(
        log.count("takeover of dead engine failed, retrying") > 3,
        "failed takeovers must be logged"
    );
    faults.lift_curse();
    harness.advance(secs(3)).await;
    assert_eq!(states(harness, CURSED).await, ["completed"; 3]);
    assert_eq!(marks.count(CURSED), 6, "each refused run must be executed once more");
    heir.shutdown().await;
}

/// If a new reaction cannot follow one stream, it still follows all other streams, also on later
/// pages.
pub(crate) async fn one_stream_that_cannot_be_followed_keeps_no_other(
    harness: &TestHarness,
    faults: &Faults,
) {
    // More streams than fit on one page.
    const STREAMS: usize = 501;
    let (log, _listens) = Warnings::listen();
    for n in 0..STREAMS {
        append_quietly(harness, &format!("s-{n:04}"), &numbered(1)).await;
    }
    faults.curse(
        Flaw::Nul,
        |change| matches!(change, Change::Insert(Row::Subscription(sub)) if sub.stream == "s-0007"),
    );
    let marks = Marks::default();
    let noted = marks.clone();
    let reaction = Reaction::new("mail").on_any(move |ctx: ReactionCtx, _: StreamEvent| {
        noted.mark(ctx.stream());
        async { Ok(()) }
    });
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    harness.advance(secs(5)).await;
    assert_eq!(marks.all().len(), STREAMS - 1);
    assert_eq!(marks.count("s-0007"), 0);
    assert!(
        log.count("catching up on existing streams failed, retrying") > 1,
        "the failure must be logged"
    );
    faults.lift_curse();
    harness.advance(secs(2)).await;
    assert_eq!((marks.count("s-0007"), marks.all().len()), (1, STREAMS));
    engine.shutdown().await;
}

/// If more due rows fail than fit on one page, the rows after them are still processed.
pub(crate) async fn a_page_of_failing_commands_stops_no_sweep(
    harness: &TestHarness,
    faults: &Faults,
) {
    const CURSES: usize = 1_002;
    if !matches!(harness.store().database(), Database::None) {
        // Each failure is a transaction of its own, which takes minutes on a database. The stories
        // of `clock.rs` test the paging there.
        return;
    }
    let nap = |name: &str| {
        Workflow::new(name, async |ctx: Ctx, _: Value| ctx.sleep("nap", secs(1)).await)
    };
    let engine = harness.engine().workflow(nap(CURSED)).workflow(nap("nap")).start().await.unwrap();
    for _ in 0..2 {
        burst(&engine, CURSED, CURSES / 2).await;
    }
    start(&engine, "nap", json!({})).await;
    harness.settle().await;
    faults.curse(Flaw::Nul, |change| run_of(change).is_some());
    harness.advance(secs(1)).await;
    assert_eq!(states(harness, "nap").await, ["completed"]);
    assert_eq!(states(harness, CURSED).await, vec!["waiting"; CURSES]);
}
