//! Waits for a time, an event, a signal or another workflow, without occupying a worker or a slot.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Concurrency, Ctx, Engine, RunId, Singleton, StepError, Workflow, testing::TestHarness,
};
use tidegate_core::time::Timestamp;

use crate::words::{Door, Journal, Marks, failed, ms, recorded_steps, secs, start, state, states};

const SECOND: Duration = Duration::from_secs(1);

/// spec waits, N50: a sleep ends at its due time and not before, even if something else wakes the
/// run earlier.
pub(crate) async fn a_sleep_ends_at_its_time(harness: &TestHarness) {
    let at = harness.now().plus_ms(5_000);
    let nap = Workflow::new("nap", move |ctx: Ctx, how: String| async move {
        match how.as_str() {
            "for" => ctx.sleep("nap", SECOND * 5).await?,
            "until" => ctx.sleep_until("nap", at).await?,
            _ => ctx.sleep_until("nap", Timestamp::from_ms(0)).await?,
        }
        ctx.now("then").await
    });
    let engine = harness.engine().workflow(nap).start().await.unwrap();
    let span = start(&engine, "nap", json!("for")).await;
    let moment = start(&engine, "nap", json!("until")).await;
    let past = start(&engine, "nap", json!("past")).await;
    harness.advance(Duration::from_millis(4_999)).await;
    engine.pause(span).await.unwrap();
    engine.resume(span).await.unwrap();
    harness.settle().await;
    assert_eq!(state(harness, "nap", span).await, "waiting");
    assert_eq!(state(harness, "nap", moment).await, "waiting");
    let started = at.micros() - 5_000_000;
    assert_eq!(harness.completed(&engine, past).await, json!(started));
    harness.advance(Duration::from_millis(1)).await;
    assert_eq!(harness.completed(&engine, span).await, json!(at));
    assert_eq!(harness.completed(&engine, moment).await, json!(at));
}

/// spec N16, N17: an event wakes all runs that wait for a matching event, and they get its data. An
/// event before the wait does not count. Without a matching event, the wait returns `None` at its
/// timeout.
pub(crate) async fn an_event_wakes_all_who_wait_for_it(harness: &TestHarness) {
    let ship = Workflow::new("ship", |ctx: Ctx, order: u64| async move {
        let paid = ctx.wait_for_event::<Value>("paid", "order.paid").timeout(SECOND * 60);
        paid.matching("order", order).matching("cart.open", false).await
    });
    let engine = harness.engine().workflow(ship).start().await.unwrap();
    let paid = |order: Value, open: bool| {
        let data = json!({ "order": order, "cart": { "open": open } });
        let engine = engine.clone();
        async move { engine.send("order.paid", data).await.unwrap().woke }
    };
    assert_eq!(paid(json!(1), false).await, 0, "an event before the wait must wake no run");
    let mut runs = Vec::new();
    for order in [1, 1, 2] {
        runs.push(start(&engine, "ship", json!(order)).await);
    }
    harness.settle().await;
    assert!(harness.runs("ship").await.iter().all(|run| run.state == "waiting"));
    assert_eq!(paid(json!("1"), false).await, 0, "a text must not match a number");
    assert_eq!(paid(json!(1), true).await, 0, "an event must match in all fields");
    assert_eq!(paid(json!(1), false).await, 2);
    harness.settle().await;
    for run in &runs[..2] {
        assert_eq!(harness.completed(&engine, *run).await["order"], json!(1));
    }
    assert_eq!(state(harness, "ship", runs[2]).await, "waiting");
    harness.advance(SECOND * 60).await;
    assert_eq!(harness.completed(&engine, runs[2]).await, json!(null));
    assert_eq!(paid(json!(2), false).await, 0, "no run must be waiting any more");
}

/// spec N51, N52, B165: signals are stored in order until the run waits for them, also if the run
/// has not started, is busy, or is about to be woken by its timer. A signal with another name does
/// not wake the run.
pub(crate) async fn a_signal_is_kept_until_it_is_asked_for(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, seen) = (door.clone(), marks.clone());
    let chat = Workflow::new("chat", move |ctx: Ctx, _: Value| {
        let (gate, seen) = (gate.clone(), seen.clone());
        async move {
            let busy = ctx.step("busy", || async {
                gate.pass().await;
                Ok(())
            });
            busy.await?;
            let mut heard = Vec::new();
            for n in 0.. {
                let word = ctx.wait_for_signal::<String>(format!("word {n}"), "word");
                let word = word.timeout(SECOND * 10).await?;
                ctx.step(format!("hear {n}"), || async { Ok(seen.mark("hear")) }).await?;
                heard.extend(word);
                if heard.len() == 4 {
                    break;
                }
            }
            Ok(heard)
        }
    });
    let chat = chat.concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(chat).start().await.unwrap();
    let busy = start(&engine, "chat", json!(null)).await;
    let queued = start(&engine, "chat", json!(null)).await;
    harness.settle().await;
    assert_eq!(state(harness, "chat", busy).await, "running");
    assert_eq!(state(harness, "chat", queued).await, "queued");
    for run in [busy, queued] {
        engine.signal(run, "word", "one").await.unwrap();
        engine.signal(run, "other", "nothing").await.unwrap();
        engine.signal(run, "word", "two").await.unwrap();
    }
    door.open();
    harness.settle().await;
    for run in [busy, queued] {
        assert_eq!(state(harness, "chat", run).await, "waiting");
        engine.signal(run, "word", "three").await.unwrap();
    }
    // A wait times out at the same moment at which a signal arrives.
    harness.advance(Duration::from_millis(9_999)).await;
    let late = engine.signal(busy, "word", "late");
    let ((), late) = tokio::join!(harness.advance(Duration::from_millis(1)), late);
    late.unwrap();
    engine.signal(queued, "word", "later").await.unwrap();
    harness.settle().await;
    assert_eq!(harness.completed(&engine, busy).await, json!(["one", "two", "three", "late"]));
    assert_eq!(harness.completed(&engine, queued).await, json!(["one", "two", "three", "later"]));
    assert!(marks.count("hear") > 8, "at least one wait must have timed out");
}

/// spec N18, N51, wake-ups: a run signals another run once, however often it is replayed. If the
/// other run has ended or never existed, the sender gets an error that it can handle.
pub(crate) async fn a_run_signals_another_once(harness: &TestHarness) {
    let chat = Workflow::new("chat", |ctx: Ctx, _: Value| async move {
        let first = ctx.wait_for_signal::<u64>("first", "word").await?;
        let second = ctx.wait_for_signal::<u64>("second", "word").timeout(SECOND * 60).await?;
        Ok((first, second))
    });
    let caller = Workflow::new("caller", |ctx: Ctx, other: RunId| async move {
        let sent = ctx.signal("call", other, "word", 7).await;
        ctx.sleep("nap", SECOND).await?;
        Ok(sent.err().map(|fault| fault.code().to_owned()))
    });
    let engine = harness.engine().workflow(chat).workflow(caller).start().await.unwrap();
    let chat = start(&engine, "chat", json!(null)).await;
    let call = start(&engine, "caller", json!(chat)).await;
    harness.advance(SECOND).await;
    assert_eq!(harness.completed(&engine, call).await, json!(null));
    harness.advance(SECOND * 60).await;
    assert_eq!(harness.completed(&engine, chat).await, json!([7, null]));

    let nobody = RunId { seq: tidegate_core::id::Seq(1), ..chat };
    for (other, code) in [(chat, "run_ended"), (nobody, "no_run")] {
        let call = start(&engine, "caller", json!(other)).await;
        harness.advance(SECOND).await;
        assert_eq!(harness.completed(&engine, call).await, json!(code));
    }
}

/// spec N19, G2: the output or error of a child reaches its parent, which holds no slot meanwhile:
/// here both share one slot.
pub(crate) async fn a_child_answers_its_parent(harness: &TestHarness) {
    let family = |name: &'static str| {
        let work = Workflow::new(name, move |ctx: Ctx, depth: u64| async move {
            if depth == 0 {
                return Ok(json!("grandchild"));
            }
            if depth > 5 {
                return Err(StepError::coded("TooDeep", "no further").fatal());
            }
            let child = ctx.invoke::<_, Value>("child", "family", depth - 1).await?;
            Ok(json!([child]))
        });
        work.concurrency(Concurrency::limit(1))
    };
    let proud = Workflow::new("proud", |ctx: Ctx, of: Value| async move {
        let (name, input) = (of[0].as_str().unwrap_or_default().to_owned(), of[1].clone());
        let child = ctx.invoke::<_, Value>("child", name, input).timeout(SECOND * 30).await;
        Ok(child.unwrap_or_else(|fault| json!({ "code": fault.code(), "is": fault.message() })))
    });
    let slow =
        Workflow::new(
            "slow",
            |ctx: Ctx, _: Value| async move { ctx.sleep("nap", SECOND * 60).await },
        );
    let builder = harness.engine().workflow(family("family")).workflow(proud).workflow(slow);
    let engine = builder.start().await.unwrap();
    let good = start(&engine, "proud", json!(["family", 2])).await;
    let bad = start(&engine, "proud", json!(["family", 9])).await;
    let late = start(&engine, "proud", json!(["slow", 0])).await;
    let none = start(&engine, "proud", json!(["nobody", 0])).await;
    harness.settle().await;
    assert_eq!(harness.completed(&engine, good).await, json!([["grandchild"]]));
    assert_eq!(
        harness.completed(&engine, bad).await,
        json!({ "code": "TooDeep", "is": "no further" })
    );
    assert_eq!(harness.completed(&engine, none).await["code"], "UnknownWorkflow");
    harness.advance(SECOND * 30).await;
    assert_eq!(harness.completed(&engine, late).await["code"], "TimedOut");
    harness.advance(SECOND * 30).await;
    assert_eq!(
        harness.runs("slow").await[0].state,
        "completed",
        "the child must continue after the parent's timeout"
    );
    assert_eq!(harness.runs("family").await.len(), 3 + 1, "each child must be started once");
}

/// spec A5, G8, N40: if a gate refuses a child, the step of the parent fails at once. The error
/// names the control and the holder, and says so if an ancestor holds the gate.
pub(crate) async fn a_refused_child_fails_its_step(harness: &TestHarness) {
    let only = Workflow::new("only", |ctx: Ctx, deep: bool| async move {
        if deep {
            ctx.invoke::<_, Value>("again", "only", false).await?;
        }
        ctx.sleep("nap", SECOND * 60).await
    });
    let parent = Workflow::new("parent", |ctx: Ctx, _: Value| async move {
        ctx.invoke::<_, Value>("child", "only", false).await
    });
    let only = only.singleton(Singleton::skip());
    let engine = harness.engine().workflow(only).workflow(parent).start().await.unwrap();
    let deep = start(&engine, "only", json!(true)).await;
    harness.settle().await;
    assert_eq!(failed(&engine, deep).await.code(), "HeldByAncestor");
    let holder = start(&engine, "only", json!(false)).await;
    let refused = start(&engine, "parent", json!(null)).await;
    harness.settle().await;
    let fault = failed(&engine, refused).await;
    assert_eq!(fault.code(), "Refused");
    assert!(fault.message().contains("singleton"), "{fault}");
    assert!(fault.message().contains(&holder.to_string()), "{fault}");
}

/// spec B61, B62, B63, B64: a run that sleeps, waits for an event or waits for a retry holds no
/// slot. When it wakes, it is queued for one.
pub(crate) async fn a_waiting_run_holds_no_slot(harness: &TestHarness) {
    let (door, marks) = (Door::closed(), Marks::default());
    let (gate, inside) = (door.clone(), marks.clone());
    let work = Workflow::new("work", move |ctx: Ctx, how: String| {
        let (gate, inside) = (gate.clone(), inside.clone());
        async move {
            let first = ctx.attempt("flaky") == 1;
            match how.as_str() {
                "sleep" => ctx.sleep("nap", SECOND * 10).await?,
                "event" => drop(ctx.wait_for_event::<Value>("go", "go").await?),
                "retry" => {
                    let flaky = || async move {
                        if first {
                            Err(StepError::new("no")).map_err(|it| it.retry_after(SECOND * 10))
                        } else {
                            Ok(())
                        }
                    };
                    ctx.step("flaky", flaky).await?;
                }
                _ => {}
            }
            let hold = ctx.step("hold", || async {
                inside.mark(&*how);
                gate.pass().await;
                Ok(())
            });
            hold.await
        }
    });
    let work = work.concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(work).start().await.unwrap();
    let mut runs: Vec<RunId> = Vec::new();
    for how in ["sleep", "event", "retry", "hold"] {
        runs.push(start(&engine, "work", json!(how)).await);
        harness.settle().await;
    }
    assert_eq!(marks.all(), ["hold"]);
    engine.send("go", json!(null)).await.unwrap();
    harness.advance(SECOND * 10).await;
    for run in &runs[..3] {
        assert_eq!(state(harness, "work", *run).await, "queued", "the slot is taken");
    }
    door.open();
    harness.settle().await;
    for run in runs {
        harness.completed(&engine, run).await;
    }
    assert_eq!(
        marks.all(),
        ["hold", "sleep", "event", "retry"],
        "the runs must continue in their original order"
    );
}

/// spec N18: an event sent by a step is sent once, however often the handler is replayed.
pub(crate) async fn a_sent_event_is_sent_once(harness: &TestHarness) {
    let teller = Workflow::new("teller", |ctx: Ctx, n: u64| async move {
        ctx.send_event("tell", "told", json!({ "n": n })).await?;
        let attempt = ctx.attempt("flaky");
        let flaky = ctx.step("flaky", || async move {
            if attempt < 3 { Err(StepError::new("not yet")) } else { Ok(()) }
        });
        flaky.await?;
        ctx.sleep("nap", SECOND).await
    });
    let listener = Workflow::new("listener", |_: Ctx, reply: Value| async move { Ok(reply) });
    let listener = listener.on_event("told");
    let engine = harness.engine().workflow(teller).workflow(listener).start().await.unwrap();
    for n in 0..3 {
        start(&engine, "teller", json!(n)).await;
    }
    harness.advance(SECOND * 60).await;
    let reply = harness.runs("listener").await;
    assert_eq!(reply.len(), 3);
    assert!(harness.runs("teller").await.iter().all(|run| run.state == "completed"));
}

/// spec waits: parallel waits are answered independently, and the handler continues with each
/// answer as it arrives. One of them is a call of a child.
pub(crate) async fn waits_in_parallel_are_answered_each(harness: &TestHarness) {
    let child = Workflow::new("child", |ctx: Ctx, _: Value| async move {
        ctx.sleep("nap", SECOND * 20).await?;
        Ok("grown")
    });
    let marks = Marks::default();
    let seen = marks.clone();
    let both = Workflow::new("both", move |ctx: Ctx, _: Value| {
        let seen = seen.clone();
        async move {
            let after = async |what: &str| {
                ctx.step(format!("after {what}"), || async { Ok(seen.mark(what)) }).await
            };
            let nap = async {
                ctx.sleep("nap", SECOND * 10).await?;
                after("nap").await
            };
            let event = async {
                ctx.wait_for_event::<Value>("event", "go").await?;
                after("event").await
            };
            let child = async {
                let child = ctx.invoke::<_, String>("child", "child", json!(null)).await?;
                after("child").await?;
                Ok::<_, StepError>(child)
            };
            let (_, _, child) = tokio::try_join!(nap, event, child)?;
            Ok(child)
        }
    });
    let engine = harness.engine().workflow(both).workflow(child).start().await.unwrap();
    let run = start(&engine, "both", json!(null)).await;
    harness.advance(SECOND * 5).await;
    assert_eq!(engine.send("go", json!(null)).await.unwrap().woke, 1);
    harness.settle().await;
    assert_eq!(marks.all(), ["event"]);
    harness.advance(SECOND * 5).await;
    assert_eq!(marks.all(), ["event", "nap"]);
    harness.advance(SECOND * 10).await;
    assert_eq!(marks.all(), ["event", "nap", "child"]);
    assert_eq!(harness.completed(&engine, run).await, json!("grown"));
    assert_eq!(harness.runs("child").await.len(), 1);
}

/// spec waits: when two waits race, the one that was answered first wins on every replay, in
/// whatever order the code writes them, even if the other is answered later.
pub(crate) async fn a_race_ends_on_every_replay_as_it_did_first(harness: &TestHarness) {
    let marks = Marks::default();
    let seen = marks.clone();
    let race = Workflow::new("race", move |ctx: Ctx, _: Value| {
        let seen = seen.clone();
        async move {
            let winner = tokio::select! {
                biased;
                nap = ctx.sleep("nap", SECOND * 10) => nap.map(|()| "nap")?,
                event = ctx.wait_for_event::<Value>("event", "go") => event.map(|_| "event")?,
            };
            let won = ctx.step(format!("{winner} won"), || async { Ok(seen.mark(winner)) });
            won.await?;
            // The sleep is long enough for the other wait to be answered, too.
            ctx.sleep("rest", SECOND * 60).await?;
            Ok(winner)
        }
    });
    let engine = harness.engine().workflow(race).start().await.unwrap();
    let event = start(&engine, "race", json!(null)).await;
    harness.advance(SECOND).await;
    engine.send("go", json!(null)).await.unwrap();
    harness.settle().await;
    assert_eq!(marks.all(), ["event"]);
    let nap = start(&engine, "race", json!(null)).await;
    harness.advance(SECOND * 11).await;
    assert_eq!(
        engine.send("go", json!(null)).await.unwrap().woke,
        1,
        "the wait that lost the race must still be registered"
    );
    harness.advance(SECOND * 60).await;
    assert_eq!(harness.completed(&engine, event).await, json!("event"));
    assert_eq!(harness.completed(&engine, nap).await, json!("nap"));
    assert_eq!(marks.all(), ["event", "nap"]);
    assert!(recorded_steps(harness, event).await.contains(&"nap".to_owned()));
}

/// spec waits: if the code has dropped a wait, it continues with the answers of its other waits.
pub(crate) async fn a_wait_that_the_code_has_dropped_holds_nothing_up(harness: &TestHarness) {
    let code = |both: bool| {
        Workflow::new("job", move |ctx: Ctx, _: Value| async move {
            if both {
                ctx.sleep("first", SECOND).await?;
            }
            ctx.sleep("second", SECOND).await?;
            ctx.sleep("third", SECOND * 60).await
        })
    };
    let engine = |both: bool| harness.engine().workflow(code(both)).start();
    let before: Engine = engine(true).await.unwrap();
    let run = start(&before, "job", json!(null)).await;
    harness.advance(SECOND * 2).await;
    before.shutdown().await;
    let after = engine(false).await.unwrap();
    harness.advance(SECOND * 60).await;
    harness.completed(&after, run).await;
}

/// A run that continues keeps its recorded steps, also if its event was just prefetched for another
/// run of the same event that is next in the queue.
pub(crate) async fn a_run_that_goes_on_shares_its_event_with_the_next_in_line(
    harness: &TestHarness,
) {
    let (journal, marks) = (Journal::new(harness), Marks::default());
    let busy = journal.clone();
    let hot = Workflow::new("hot", move |ctx: Ctx, _: Value| {
        let busy = busy.clone();
        async move {
            for n in 0..5 {
                let step = ctx.step(format!("{n}"), || async {
                    busy.spend(secs(1)).await;
                    Ok(())
                });
                step.await?;
            }
            Ok(())
        }
    });
    let marked = marks.clone();
    let calm = Workflow::new("calm", move |ctx: Ctx, input: Value| {
        let marked = marked.clone();
        async move {
            let line = input.to_string();
            ctx.step("once", || async { Ok(marked.mark(line)) }).await?;
            ctx.sleep("nap", ms(7500)).await
        }
    });
    let hot = hot.on_event("both").concurrency(Concurrency::limit(1));
    let engine = harness.engine().workflow(hot).workflow(calm.on_event("both"));
    let engine = engine.start().await.unwrap();
    for n in 0..3 {
        engine.send("both", json!(n)).await.unwrap();
    }
    harness.advance(secs(60)).await;
    assert_eq!(states(harness, "hot").await, ["completed"; 3]);
    assert_eq!(states(harness, "calm").await, ["completed"; 3]);
    assert_eq!(marks.all(), ["0", "1", "2"], "each once");
}
