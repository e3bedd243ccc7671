//! Operations on runs (cancel, pause, replay), failure handlers and compensations.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Concurrency, Ctx, Engine, Retry, RunId, Singleton, StepError, Workflow, testing::TestHarness,
};
use tidegate_core::{
    command::Refusal,
    row::{Ended, Ending, Purpose, Row},
};

use crate::words::{Door, Marks, failed, start, state};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a retry policy without retries.
fn once() -> Retry {
    Retry::attempts(1)
}

/// Returns the runs that were started because of another run: failure handlers and compensations.
async fn followers(harness: &TestHarness, of: RunId) -> Vec<(Purpose, Ended)> {
    let rows = harness.store().dump().await.unwrap();
    let ended = |row| if let Row::Ended(ended) = row { Some(ended) } else { None };
    let ended = rows.into_iter().filter_map(ended).map(|ended| (ended.purpose, ended));
    ended
        .filter(|(purpose, _)| match purpose {
            Purpose::Compensates(run) | Purpose::OnFailure(run) => *run == of,
            Purpose::Ordinary => false,
        })
        .collect()
}

/// spec N9, B69, B76: a run can be cancelled while it is queued, asleep or paused. It never
/// continues, and its slot is free at once. An ended run cannot be cancelled.
pub(crate) async fn a_run_is_cancelled_wherever_it_is(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, seen) = (door.clone(), marks.clone());
    let work = Workflow::new("work", move |ctx: Ctx, name: String| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            if name == "asleep" {
                ctx.sleep("nap", SECOND * 60).await?;
            }
            let hold = ctx.step("hold", || async {
                seen.mark(&*name);
                gate.pass().await;
                Ok(())
            });
            hold.await
        }
    });
    let work = work.concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let mut runs = Vec::new();
    for name in ["asleep", "first", "queued", "paused", "last"] {
        runs.push(start(&engine, "work", json!(name)).await);
        harness.settle().await;
    }
    engine.pause(runs[3]).await.unwrap();
    for at in [0, 2, 3] {
        engine.cancel(runs[at], "not wanted").await.unwrap();
        assert_eq!(state(harness, "work", runs[at]).await, "cancelled");
        let again = engine.cancel(runs[at], "twice").await.unwrap_err();
        assert!(again.to_string().contains("cancelled"), "{again}");
    }
    door.open();
    harness.advance(SECOND * 120).await;
    assert_eq!(marks.all(), ["first", "last"]);
    let fault = failed(&engine, runs[2]).await;
    assert_eq!((fault.code(), fault.message()), ("Cancelled", "not wanted"));
    harness.completed(&engine, runs[4]).await;
}

/// spec N9, G7, B69: a driven run is cancelled at once and its handler is dropped at the next
/// await. Tasks that the handler spawned learn of it through `ctx.cancelled()`. None of its later
/// steps is recorded, and its slot is free when the handler has stopped.
pub(crate) async fn a_driven_run_stops_at_its_next_await(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, seen) = (door.clone(), marks.clone());
    let work = Workflow::new("work", move |ctx: Ctx, name: String| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            let (heard, answer) = (seen.clone(), ctx.cancelled());
            let hold = ctx.step("hold", || async {
                let _left = Told(seen.clone(), format!("{name} dropped"));
                tokio::spawn(async move {
                    answer.await;
                    heard.mark("heard");
                });
                gate.pass().await;
                seen.mark(&*name);
                Ok(())
            });
            hold.await?;
            ctx.step("more", || async { Ok(seen.mark("more")) }).await
        }
    });
    let work = work.concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let first = start(&engine, "work", json!("first")).await;
    let second = start(&engine, "work", json!("second")).await;
    harness.settle().await;
    engine.cancel(first, "enough").await.unwrap();
    harness.settle().await;
    assert_eq!(marks.count("first dropped"), 1);
    assert_eq!(state(harness, "work", second).await, "running");
    tokio::task::yield_now().await;
    assert_eq!(marks.count("heard"), 1);
    door.open();
    harness.settle().await;
    harness.completed(&engine, second).await;
    assert_eq!((marks.count("first"), marks.count("more")), (0, 1));
    assert_eq!(failed(&engine, first).await.code(), "Cancelled");
}

/// spec N9, B69: the commit that suspends a run may also answer its wait and lease it again, before
/// the old activation has ended. A cancel then stops the new activation at once, too.
pub(crate) async fn a_run_that_goes_on_at_once_can_be_cancelled(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, seen) = (door.clone(), marks.clone());
    let work = Workflow::new("work", move |ctx: Ctx, _: Value| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            let busy = ctx.step("busy", || async {
                gate.pass().await;
                Ok(())
            });
            busy.await?;
            ctx.wait_for_signal::<Value>("wait", "go").await?;
            let hold = ctx.step("hold", || async {
                let _left = Told(seen.clone(), "dropped".to_owned());
                seen.mark("held");
                std::future::pending::<tidegate::Result<()>>().await
            });
            hold.await
        }
    });
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let run = start(&engine, "work", json!(null)).await;
    harness.settle().await;
    engine.signal(run, "go", json!(null)).await.unwrap();
    door.open();
    harness.settle().await;
    assert_eq!(marks.all(), ["held"]);
    engine.cancel(run, "enough").await.unwrap();
    harness.settle().await;
    assert_eq!(marks.all(), ["held", "dropped"]);
    assert_eq!(engine.driven(), 0);
}

/// Guard that records its drop.
struct Told(Marks, String);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.mark(&*self.1);
    }
}

/// spec N19: children that a run waits for are cancelled when the run is cancelled.
pub(crate) async fn a_cancelled_parent_takes_its_children_along(harness: &TestHarness) {
    let child =
        Workflow::new(
            "child",
            |ctx: Ctx, _: Value| async move { ctx.sleep("nap", SECOND * 60).await },
        );
    let parent = Workflow::new("parent", |ctx: Ctx, _: Value| async move {
        ctx.invoke::<_, ()>("child", "child", json!(null)).await
    });
    let engine = harness.engine().workflow(child).workflow(parent).start().await.unwrap();
    let run = start(&engine, "parent", json!(null)).await;
    harness.settle().await;
    engine.cancel(run, "enough").await.unwrap();
    assert_eq!(harness.runs("child").await[0].state, "cancelled");
}

/// spec N10, N11, B107: a pause takes effect at the next step boundary, and can be requested twice.
/// A paused run keeps its singleton but holds no slot. When it is resumed, it continues where it
/// was.
pub(crate) async fn a_paused_run_stops_at_its_next_boundary(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, seen) = (door.clone(), marks.clone());
    let work = Workflow::new("work", move |ctx: Ctx, name: String| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            let hold = ctx.step("one", || async {
                gate.pass().await;
                Ok(seen.mark(format!("{name} one")))
            });
            hold.await?;
            ctx.step("two", || async { Ok(seen.mark(format!("{name} two"))) }).await?;
            Ok(name)
        }
    });
    let work = work.concurrency(Concurrency::limit(1)).singleton(Singleton::skip().key("id"));
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let first = start(&engine, "work", json!("first")).await;
    harness.settle().await;
    engine.pause(first).await.unwrap();
    engine.pause(first).await.unwrap();
    assert_eq!(
        state(harness, "work", first).await,
        "running",
        "the run must continue until its step has finished"
    );
    door.open();
    harness.settle().await;
    assert_eq!(state(harness, "work", first).await, "paused");
    assert_eq!(marks.all(), ["first one"]);
    let posted = engine.send("work", json!("second")).await.unwrap();
    assert_eq!(
        posted.runs[0].verdict.run(),
        None,
        "a paused run must keep its singleton: {posted:?}"
    );
    engine.resume(first).await.unwrap();
    harness.settle().await;
    assert_eq!(harness.completed(&engine, first).await, json!("first"));
    assert_eq!(marks.all(), ["first one", "first two"]);
    for refused in [engine.pause(first).await, engine.resume(first).await] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, tidegate::Error::Refused(Refusal::Ended { .. })), "{refused}");
    }
}

/// spec N12: a replay executes all steps again, with another input if one is given. A retry from a
/// step copies the records before that step and uses the same idempotency keys.
pub(crate) async fn a_new_go_is_made_of_a_run_that_has_ended(harness: &TestHarness) {
    let marks = Marks::default();
    let seen = marks.clone();
    let work = Workflow::new("work", move |ctx: Ctx, input: String| {
        let seen = seen.clone();
        async move {
            let key = ctx.idempotency_key("one");
            ctx.step("one", || async { Ok(seen.mark(format!("one of {input}"))) }).await?;
            ctx.step("two", || async { Ok(seen.mark(format!("two of {input}"))) }).await?;
            Ok(key)
        }
    });
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let first = start(&engine, "work", json!("a")).await;
    harness.settle().await;
    assert_eq!(harness.completed(&engine, first).await, json!(format!("{first}:one")));
    let replay = engine.replay(first).await.unwrap().verdict.run().unwrap();
    let other = engine.replay_with(first, "b").await.unwrap().verdict.run().unwrap();
    let retry = engine.retry_from(first, "two").await.unwrap().verdict.run().unwrap();
    harness.settle().await;
    assert_eq!(harness.completed(&engine, replay).await, json!(format!("{replay}:one")));
    assert_eq!(harness.completed(&engine, other).await, json!(format!("{other}:one")));
    assert_eq!(harness.completed(&engine, retry).await, json!(format!("{first}:one")));
    let counts = ["one of a", "two of a", "one of b", "two of b"].map(|what| marks.count(what));
    assert_eq!(counts, [2, 3, 1, 1]);
    let nowhere = engine.retry_from(first, "tow").await.unwrap_err();
    assert!(nowhere.to_string().contains("`two`"), "{nowhere}");
}

/// spec N20: the failure handler runs once for a run that failed permanently. It gets the error and
/// records its own steps. It does not run for a cancelled run.
pub(crate) async fn a_failure_is_handled_once(harness: &TestHarness) {
    let marks = Marks::default();
    let seen = marks.clone();
    let work = Workflow::new("work", |ctx: Ctx, how: String| async move {
        if how == "asleep" {
            ctx.sleep("nap", SECOND * 60).await?;
        }
        if how == "fine" { Ok(()) } else { Err(StepError::coded("Broken", how)) }
    });
    let work =
        work.retry(Retry::attempts(2).fixed(SECOND)).on_failure(move |ctx: Ctx, how: String| {
            let seen = seen.clone();
            async move {
                let (run, fault) = ctx.failure().await?.expect("the run is a failure handler");
                let what = format!("{run} {} {fault} {how}", fault.code());
                ctx.step("tell", || async { Ok(seen.mark(what)) }).await?;
                ctx.sleep("nap", SECOND).await?;
                ctx.step("tell again", || async { Ok(seen.mark("again")) }).await?;
                Ok(())
            }
        });
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let broken = start(&engine, "work", json!("glass")).await;
    start(&engine, "work", json!("fine")).await;
    let cancelled = start(&engine, "work", json!("asleep")).await;
    harness.settle().await;
    assert_eq!(marks.all(), [""; 0], "the failure handler must not run while an attempt is left");
    engine.cancel(cancelled, "enough").await.unwrap();
    harness.advance(SECOND * 60).await;
    assert_eq!(marks.all(), [format!("{broken} Broken glass glass"), "again".to_owned()]);
    assert_eq!(followers(harness, broken).await.len(), 1);
}

/// spec timeouts: a run that exceeds its timeout fails, whether it is asleep or driven, and its
/// handler is stopped.
pub(crate) async fn a_run_that_takes_too_long_fails(harness: &TestHarness) {
    let marks = Marks::default();
    let seen = marks.clone();
    let work = Workflow::new("work", move |ctx: Ctx, driven: bool| {
        let seen = seen.clone();
        async move {
            if driven {
                let hang = ctx.step("hang", || async {
                    let _left = Told(seen, "dropped".to_owned());
                    std::future::pending::<()>().await;
                    Ok(())
                });
                return hang.await;
            }
            ctx.sleep("nap", SECOND * 3600).await
        }
    });
    let work = work.timeout(SECOND * 30);
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let driven = start(&engine, "work", json!(true)).await;
    let asleep = start(&engine, "work", json!(false)).await;
    harness.advance(Duration::from_millis(29_999)).await;
    assert_eq!(state(harness, "work", driven).await, "running");
    harness.advance(Duration::from_millis(1)).await;
    for run in [driven, asleep] {
        assert_eq!(failed(&engine, run).await.code(), "TimedOut");
    }
    assert_eq!((marks.count("dropped"), engine.driven()), (1, 0));
}

/// A workflow that reserves three things, each with a compensation, and then ends as its input
/// says.
fn trip(marks: &Marks, door: &Door) -> Workflow<String, ()> {
    let (marks, door) = (marks.clone(), door.clone());
    Workflow::new("trip", move |ctx: Ctx, then: String| {
        let (marks, door) = (marks.clone(), door.clone());
        async move {
            for thing in ["flight", "hotel", "car"] {
                let key = ctx.idempotency_key(thing);
                ctx.step(thing, || async { Ok(marks.mark(thing)) }).await?;
                let (marks, door) = (marks.clone(), door.clone());
                let undo = move || async move {
                    door.pass().await;
                    marks.mark(format!("undo {key}"));
                    Ok(())
                };
                ctx.compensate(format!("cancel {thing}"), undo).await?;
            }
            match then.as_str() {
                "fails" => Err(StepError::new("no passport").fatal()),
                "fine" => Ok(()),
                _ => ctx.sleep("nap", SECOND * 600).await,
            }
        }
    })
}

fn undone(run: RunId) -> [String; 3] {
    ["car", "hotel", "flight"].map(|thing| format!("undo {run}:{thing}"))
}

/// spec compensation: the registered compensations of a run are executed newest first, in a
/// separate run, with the idempotency keys of the original run. This happens after a failure, a
/// cancel and a replacement, but not after success.
pub(crate) async fn what_was_done_is_undone_newest_first(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    door.open();
    let trip = trip(&marks, &door).singleton(Singleton::cancel());
    let engine = harness.engine().workflow(trip).start().await.unwrap();
    let undo = async |run: RunId, what: &str| {
        harness.settle().await;
        let all = marks.all();
        assert_eq!(all[all.len().saturating_sub(3)..], undone(run), "after {what}");
        let followers = followers(harness, run).await;
        assert_eq!(followers.len(), 1, "after {what}");
        assert!(matches!(followers[0].1.ending, Ending::Completed { .. }), "{followers:?}");
    };
    let run = start(&engine, "trip", json!("fails")).await;
    undo(run, "failure").await;
    let run = start(&engine, "trip", json!("waits")).await;
    harness.settle().await;
    engine.cancel(run, "stay home").await.unwrap();
    undo(run, "cancel").await;
    let old = start(&engine, "trip", json!("waits")).await;
    harness.settle().await;
    let before = marks.all().len();
    let fine = start(&engine, "trip", json!("fine")).await;
    harness.settle().await;
    harness.completed(&engine, fine).await;
    let all = marks.all();
    assert_eq!(
        all[before..before + 3],
        undone(old),
        "the old run must be compensated before the new run starts"
    );
    assert_eq!(all[before + 3..], ["flight", "hotel", "car"]);
    assert!(followers(harness, fine).await.is_empty());
}

/// spec compensation: the handler is replayed to find the registered compensations. Its next step
/// is not started.
pub(crate) async fn undoing_starts_nothing_of_the_old_run(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, seen) = (door.clone(), marks.clone());
    let work = Workflow::new("work", move |ctx: Ctx, _: Value| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            ctx.emit("working")?;
            ctx.step("one", || async { Ok(seen.mark("one")) }).await?;
            let (undone, id) = (seen.clone(), ctx.run_id());
            let undo = move || async move {
                undone.mark(format!("undo {id}"));
                Ok(())
            };
            ctx.compensate("undo", undo).await?;
            let two = ctx.step("two", || async {
                seen.mark("two");
                gate.pass().await;
                Ok(())
            });
            two.await
        }
    });
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let run = start(&engine, "work", json!(null)).await;
    harness.settle().await;
    engine.cancel(run, "enough").await.unwrap();
    harness.settle().await;
    assert_eq!(marks.all(), ["one".to_owned(), "two".to_owned(), format!("undo {run}")]);
}

/// spec compensation: a new run waits until all compensations are done, at most for
/// `compensateTimeoutMs`. After that, both continue at the same time.
pub(crate) async fn a_newcomer_waits_for_the_undoing_for_a_while(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let trip = trip(&marks, &door).singleton(Singleton::cancel());
    let engine = harness.engine().workflow(trip).start().await.unwrap();
    let old = start(&engine, "trip", json!("waits")).await;
    harness.settle().await;
    let new = start(&engine, "trip", json!("fine")).await;
    harness.advance(Duration::from_millis(59_999)).await;
    assert_eq!(marks.count("flight"), 1, "the new run waits");
    harness.advance(Duration::from_millis(1)).await;
    harness.completed(&engine, new).await;
    assert_eq!(marks.count("flight"), 2);
    door.open();
    harness.settle().await;
    let all = marks.all();
    assert_eq!(all[6..], undone(old));
}

/// spec compensation: a compensation that fails is retried up to its limit. The remaining
/// compensations are still executed, and the error fails the compensating run.
pub(crate) async fn an_undo_that_fails_keeps_no_other_from_being_done(harness: &TestHarness) {
    let marks = Marks::default();
    let seen = marks.clone();
    let work = Workflow::new("work", move |ctx: Ctx, _: Value| {
        let seen = seen.clone();
        async move {
            for n in 0..3 {
                let seen = seen.clone();
                let undo = move || async move {
                    seen.mark(format!("undo {n}"));
                    assert!(n != 1, "it slipped");
                    Ok(())
                };
                ctx.compensate(format!("{n}"), undo).await?;
            }
            Err::<(), _>(StepError::new("broken").fatal())
        }
    });
    let work = work.retry(Retry::attempts(2).fixed(SECOND));
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let run = start(&engine, "work", json!(null)).await;
    harness.advance(SECOND * 60).await;
    assert_eq!(marks.all(), ["undo 2", "undo 1", "undo 1", "undo 0"]);
    let followers = followers(harness, run).await;
    let Ending::Failed { error } = &followers[0].1.ending else { panic!("{followers:?}") };
    assert_eq!((error.code.as_str(), error.message.as_str()), ("Panicked", "it slipped"));
}

/// spec replace, steps: if a failure handler registers compensations and then fails, it is
/// compensated by its own code.
pub(crate) async fn a_failure_handler_is_undone_by_its_own_code(harness: &TestHarness) {
    let marks = Marks::default();
    let seen = marks.clone();
    let work =
        Workflow::new(
            "work",
            |_: Ctx, _: Value| async move { Err::<(), _>(StepError::new("broken")) },
        );
    let work = work.retry(once()).on_failure(move |ctx: Ctx, _: Value| {
        let seen = seen.clone();
        async move {
            let (failed, _) = ctx.failure().await?.expect("the run is a failure handler");
            let undo = move || async move {
                seen.mark(format!("undo the handling of {failed}"));
                Ok(())
            };
            ctx.compensate("undo", undo).await?;
            Err(StepError::new("that too").fatal())
        }
    });
    let engine: Engine = harness.engine().workflow(work).start().await.unwrap();
    let run = start(&engine, "work", json!(null)).await;
    harness.settle().await;
    assert_eq!(marks.all(), [format!("undo the handling of {run}")]);
}
