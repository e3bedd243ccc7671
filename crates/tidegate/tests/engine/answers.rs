//! Answers of waits as they came: whole events, conditions on them, errors with all that is known
//! of them, and signals by name.

use futures_util::future::join;
use serde_json::{Value, json};
use tidegate::{
    Ctx, Engine, NewEvent, NewRecord, Payload, Retry, RunError, RunId, StepError, StepKind,
    WaitsFor, Workflow, new_event, testing::TestHarness,
};

use crate::words::{Journal, failed, recorded_steps, secs, sharing, start, state};

fn with(name: &str, data: Value, attributes: &str) -> NewEvent {
    let attributes = Some(Payload::parse(attributes.as_bytes(), 1000).unwrap());
    NewEvent { attributes, ..new_event(name, data).unwrap() }
}

async fn woke(engine: &Engine, event: NewEvent) -> u32 {
    engine.send_all(vec![event]).await.unwrap()[0].woke
}

/// spec waits: the answer of a wait is the whole event on request, with its attributes as they were
/// sent. An `id` among them stands for the engine's.
pub(crate) async fn a_wait_is_answered_by_the_whole_event(harness: &TestHarness) {
    let order = Workflow::new("order", |ctx: Ctx, _: Value| async move {
        let own = ctx.event().whole();
        let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(60)).whole_event();
        Ok(json!([own.get::<Value>().unwrap(), paid.await?]))
    });
    let order = order.on_event_if("order", "event.user.id == 7");
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let other = with("order", json!(1), r#"{"user": {"id": 8}}"#);
    assert_eq!(engine.send_all(vec![other]).await.unwrap()[0].run(), None);
    let event = with("order", json!(1), r#"{"user": {"id": 7}, "v": "2", "meta": {"a": [1]}}"#);
    let posted = engine.send_all(vec![event]).await.unwrap();
    let (run, id) = (posted[0].run().unwrap(), posted[0].id);
    let began = harness.now().micros() / 1000;
    harness.advance(secs(1)).await;
    assert_eq!(woke(&engine, with("paid", json!({ "c": 1.0 }), r#" {"id":"mine"} "#)).await, 1);
    harness.settle().await;
    let own = json!({ "id": id.to_string(), "name": "order", "data": 1, "ts": began,
        "user": { "id": 7 }, "v": "2", "meta": { "a": [1] } });
    let paid = json!({ "id": "mine", "name": "paid", "data": { "c": 1.0 }, "ts": began + 1000 });
    assert_eq!(harness.completed(&engine, run).await, json!([own, paid]));
    let silent = with("order", json!(1), r#"{"user": {"id": 7}}"#);
    let silent = engine.send_all(vec![silent]).await.unwrap()[0].run().unwrap();
    harness.advance(secs(60)).await;
    assert_eq!(harness.completed(&engine, silent).await[1], json!(null));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(65_536));
    for text in ["[]", &large, r#"{"data": 2}"#, r#"{"v": 1, "ts": 2}"#, r#"{"name": 1}"#] {
        let attributes = Some(Payload::parse(text.as_bytes(), 100_000).unwrap());
        let event = NewEvent { attributes, ..new_event("order", 1).unwrap() };
        assert!(engine.send_all(vec![event]).await.is_err(), "{text:.20}");
    }
}

/// spec waits: a condition compares the event with the one that has started the run. An event for
/// which it is false, or cannot be evaluated, does not end the wait.
pub(crate) async fn a_wait_has_a_condition(harness: &TestHarness) {
    let order = |name: &str, condition: &'static str, lenient: bool| {
        Workflow::new(name, move |ctx: Ctx, _: Value| async move {
            let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(60));
            if lenient {
                paid.only_if_lenient(condition).await
            } else {
                paid.only_if(condition).await
            }
        })
    };
    let mixed = Workflow::new("mixed", |ctx: Ctx, _: Value| async move {
        let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(60));
        paid.only_if("async.data.cents > 9").only_if_lenient("async.data.ok || false").await
    });
    let long = Workflow::new("long", |ctx: Ctx, _: Value| async move {
        let part = "async.data.a in event.data.list || async.data.b in event.data.list";
        let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(60));
        paid.only_if(part).only_if(part).only_if(part).await
    });
    let both = "async.data.id == event.data.id && async.data.cents > event.data.least";
    let engine = harness
        .engine()
        .workflow(order("both", both, false))
        .workflow(order("either", "async.data.id == 'z' || async.data.cents > 99", true))
        .workflow(order("bad", "async.data.id ==", false))
        .workflow(mixed)
        .workflow(long)
        .start()
        .await
        .unwrap();
    let first = start(&engine, "both", json!({ "id": "a", "least": 10 })).await;
    let other = start(&engine, "both", json!({ "id": "b", "least": 10 })).await;
    let either = start(&engine, "either", json!({})).await;
    let list = json!({ "list": vec!["a text of an event"; 600] });
    for (name, data) in [("bad", json!({})), ("mixed", json!({})), ("long", list)] {
        let bad = start(&engine, name, data).await;
        harness.settle().await;
        assert_eq!(failed(&engine, bad).await.code(), "BadMatch", "{name}");
    }
    let paid = |id: &str, cents: Value| {
        let (engine, data) = (engine.clone(), json!({ "id": id, "cents": cents }));
        async move { engine.send("paid", data).await.unwrap().woke }
    };
    assert_eq!(paid("a", json!(10)).await, 0, "the second part is false");
    assert_eq!(paid("a", json!("text")).await, 0, "the second part cannot be evaluated");
    assert_eq!(paid("c", json!(50)).await, 0);
    assert_eq!(paid("a", json!(11)).await, 1);
    assert_eq!(paid("x", json!(100)).await, 1);
    harness.settle().await;
    assert_eq!(harness.completed(&engine, first).await, json!({ "id": "a", "cents": 11 }));
    assert_eq!(harness.completed(&engine, either).await["cents"], json!(100));
    harness.advance(secs(60)).await;
    assert_eq!(harness.completed(&engine, other).await, json!(null));
}

/// spec waits: events that were kept for the run are answers under the same condition, and whole.
pub(crate) async fn a_kept_event_meets_the_condition(harness: &TestHarness) {
    let order = Workflow::new("order", |ctx: Ctx, _: Value| async move {
        ctx.sleep("nap", secs(10)).await?;
        let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(10)).whole_event();
        paid.only_if("async.data.cents > event.data.least && async.user == 'ada'").await
    });
    let order = order.waits_for(WaitsFor::event("paid").matching("id", "id"));
    let engine = harness.engine().workflow(order).start().await.unwrap();
    let run = start(&engine, "order", json!({ "id": 1, "least": 10 })).await;
    harness.settle().await;
    let paid = |cents: u32, user: &str| {
        with("paid", json!({ "id": 1, "cents": cents }), &json!({ "user": user }).to_string())
    };
    for event in [paid(5, "ada"), paid(50, "bob"), paid(60, "ada"), paid(70, "ada")] {
        assert_eq!(woke(&engine, event).await, 0);
    }
    harness.advance(secs(10)).await;
    let answer = harness.completed(&engine, run).await;
    assert_eq!((&answer["data"]["cents"], &answer["user"]), (&json!(60), &json!("ada")));
}

/// spec steps: the details of an error come back as they were, from a step, from a child, and from
/// the run.
pub(crate) async fn an_error_keeps_its_details(harness: &TestHarness) {
    let details =
        json!({ "name": "TypeError", "stack": "at a.js:1", "cause": { "n": [1.5, null] } });
    let known = details.clone();
    let child = Workflow::new("child", move |ctx: Ctx, _: Value| {
        let known = known.clone();
        async move {
            let error = StepError::coded("TypeError", "x is undefined").fatal();
            ctx.step("call", || async { Err::<(), _>(error.with_details(known)) }).await
        }
    });
    let parent = Workflow::new("parent", |ctx: Ctx, _: Value| async move {
        let error = ctx.invoke::<_, Value>("child", "child", json!(null)).await.unwrap_err();
        ctx.sleep("nap", secs(1)).await?;
        ctx.recorded().await?;
        let result = Err(RunError { details: error.details().cloned(), ..RunError::new("A", "b") });
        let kind = StepKind::Run;
        ctx.remember(vec![NewRecord { id: "kept".to_owned(), kind, result }]).await?;
        ctx.recorded().await?;
        let kept = ctx.step("kept", || async { Ok(()) }).await;
        assert_eq!(kept.unwrap_err().details(), error.details());
        Err::<(), _>(error)
    });
    let engine = harness.engine().workflow(parent).workflow(child).start().await.unwrap();
    let run = start(&engine, "parent", json!(null)).await;
    harness.advance(secs(2)).await;
    let error = failed(&engine, run).await;
    assert_eq!((error.code(), error.message()), ("TypeError", "x is undefined"));
    assert_eq!(error.details(), Some(&details));
}

/// spec signals: a signal by name goes to the one step that waits for it. Another one fails, or
/// takes its place.
pub(crate) async fn a_signal_by_name_has_one_waiter(harness: &TestHarness) {
    let waits = Workflow::new("waits", |ctx: Ctx, replace: bool| async move {
        let wait = ctx.wait_for_signal_by_name::<Value>("go", "deploy/7").timeout(secs(60));
        if replace { wait.replacing().await } else { wait.await }
    });
    let engine = harness.engine().workflow(waits).start().await.unwrap();
    assert_eq!(engine.signal_by_name("deploy/7", 1).await.unwrap(), None);
    let first = start(&engine, "waits", json!(false)).await;
    harness.settle().await;
    assert_eq!(engine.signal_by_name("deploy/8", 1).await.unwrap(), None);
    assert_eq!(engine.in_workspace("other").signal_by_name("deploy/7", 1).await.unwrap(), None);
    let why = engine.why(first).await.unwrap().sentence;
    assert!(why.contains("waits for a signal `deploy/7`"), "{why}");
    let second = start(&engine, "waits", json!(false)).await;
    harness.settle().await;
    assert_eq!(failed(&engine, second).await.code(), "SignalTaken");
    let third = start(&engine, "waits", json!(true)).await;
    harness.settle().await;
    assert_eq!(harness.completed(&engine, first).await, json!(null));
    assert_eq!(
        engine.signal_by_name("deploy/7", json!({ "by": "ada" })).await.unwrap(),
        Some(third)
    );
    assert_eq!(engine.signal_by_name("deploy/7", 2).await.unwrap(), None, "it is used up");
    harness.settle().await;
    assert_eq!(harness.completed(&engine, third).await, json!({ "by": "ada" }));
    let late = start(&engine, "waits", json!(false)).await;
    harness.advance(secs(60)).await;
    assert_eq!(harness.completed(&engine, late).await, json!(null));
    assert_eq!(engine.signal_by_name("deploy/7", 3).await.unwrap(), None);
}

/// spec signals: of two steps of one run the later one takes the place of the first.
pub(crate) async fn a_run_replaces_its_own_wait(harness: &TestHarness) {
    let twice = Workflow::new("twice", |ctx: Ctx, _: Value| async move {
        let first = ctx.wait_for_signal_by_name::<u32>("a", "go");
        let second = ctx.wait_for_signal_by_name::<u32>("b", "go").replacing();
        let (first, second) = join(first, second).await;
        Ok((first?, second?))
    });
    let engine = harness.engine().workflow(twice).start().await.unwrap();
    let run = start(&engine, "twice", json!(null)).await;
    harness.settle().await;
    assert_eq!(engine.signal_by_name("go", 5).await.unwrap(), Some(run));
    harness.settle().await;
    assert_eq!(harness.completed(&engine, run).await, json!([null, 5]));
}

/// spec signals: the step whose place another step of its run takes goes on at once.
pub(crate) async fn a_replaced_wait_goes_on_at_once(harness: &TestHarness) {
    let twice = Workflow::new("twice", |ctx: Ctx, _: Value| async move {
        let first = async {
            let signal = ctx.wait_for_signal_by_name::<u32>("a", "go").await?;
            ctx.step("after a", || async { Ok(signal) }).await
        };
        let second = ctx.wait_for_signal_by_name::<u32>("b", "go").replacing();
        let (first, second) = join(first, second).await;
        Ok((first?, second?))
    });
    let engine = harness.engine().workflow(twice).start().await.unwrap();
    let run = start(&engine, "twice", json!(null)).await;
    harness.settle().await;
    assert_eq!(recorded_steps(harness, run).await, ["a", "after a"]);
    assert_eq!(engine.signal_by_name("go", 5).await.unwrap(), Some(run));
    harness.settle().await;
    assert_eq!(harness.completed(&engine, run).await, json!([null, 5]));
}

/// A workflow whose handler calls code for 20 s, and returns the steps that are recorded then.
fn calling(journal: &Journal) -> Workflow<Value, Value> {
    let journal = journal.clone();
    let workflow = Workflow::new("calling", move |ctx: Ctx, _: Value| {
        let journal = journal.clone();
        async move {
            ctx.recorded().await?;
            journal.note(ctx.lease_token());
            ctx.busy(journal.spend(secs(20))).await;
            let again =
                NewRecord { id: "a".into(), kind: StepKind::Run, result: Ok(Payload::null()) };
            ctx.remember(vec![again]).await?;
            let steps = ctx.recorded().await?.into_iter();
            let steps = steps.map(|step| (step.id, step.result.unwrap().get::<Value>().unwrap()));
            Ok(json!(steps.collect::<Vec<_>>()))
        }
    });
    workflow.retry(Retry::attempts(1))
}

async fn record(engine: &Engine, run: RunId, token: &str, ids: &[&str]) -> Result<(), String> {
    let steps = ids.iter().map(|id| {
        let result = Ok(Payload::from_value(&json!(format!("outside {id}"))));
        NewRecord { id: (*id).to_owned(), kind: StepKind::Run, result }
    });
    let recorded = engine.record_in(run, token, steps.collect()).await;
    recorded.map_err(|error| error.code().to_owned())
}

/// spec remote: any engine records steps for a run that another one drives, under its lease. The
/// driver goes on, and finds them. Its own record of the same step changes nothing.
pub(crate) async fn any_engine_records_steps_of_a_driven_run(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let first = sharing(harness).workflow(calling(&journal)).start().await.unwrap();
    let run = start(&first, "calling", json!(null)).await;
    harness.settle().await;
    let token = journal.take().remove(0);
    let other = sharing(harness).start().await.unwrap();
    assert_eq!(record(&other, run, &token, &["b", "a"]).await, Ok(()));
    assert_eq!(record(&first, run, &token, &["a", "c"]).await, Ok(()));
    first.pause(run).await.unwrap();
    assert_eq!(record(&other, run, &token, &["d"]).await, Ok(()));
    assert_eq!(state(harness, "calling", run).await, "running");
    first.resume(run).await.unwrap();
    for (token, code) in [("", "bad_value"), ("zz-1", "bad_value"), ("1-1", "fenced")] {
        assert_eq!(record(&other, run, token, &["e"]).await, Err(code.to_owned()), "{token}");
    }
    harness.advance(secs(20)).await;
    let steps = ["b", "a", "c", "d"].map(|id| json!([id, format!("outside {id}")]));
    assert_eq!(harness.completed(&first, run).await, json!(steps));
    assert_eq!(record(&other, run, &token, &["e"]).await, Err("run_ended".to_owned()));
    assert_eq!(journal.take(), Vec::<String>::new(), "the handler must not be called again");
}

/// spec remote, leases: steps under the lease of a dead engine are refused, and steps that it was
/// given in time are kept.
pub(crate) async fn a_stale_lease_records_nothing(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let build = || sharing(harness).workflow(calling(&journal));
    let first = build().start().await.unwrap();
    let run = start(&first, "calling", json!(null)).await;
    harness.settle().await;
    let stale = journal.take().remove(0);
    assert_eq!(record(&first, run, &stale, &["a"]).await, Ok(()));
    harness.crash(&first).await;
    let second = build().start().await.unwrap();
    let fresh = loop {
        harness.advance(secs(1)).await;
        if let Some(token) = journal.take().pop() {
            break token;
        }
    };
    assert_eq!(record(&second, run, &stale, &["b"]).await, Err("fenced".to_owned()));
    assert_eq!(record(&second, run, &fresh, &["c"]).await, Ok(()));
    harness.advance(secs(60)).await;
    let steps = json!([["a", "outside a"], ["c", "outside c"]]);
    assert_eq!(harness.completed(&second, run).await, steps);
}

/// A handler whose call lasts 100 s, beside a wait for an event of at most 50 s.
fn beside_a_call(journal: &Journal) -> Workflow<Value, Value> {
    let journal = journal.clone();
    Workflow::new("beside", move |ctx: Ctx, _: Value| {
        let journal = journal.clone();
        async move {
            ctx.recorded().await?;
            let mut answers = ctx.answers();
            let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(50));
            let (call, paid) = (ctx.busy(journal.spend(secs(100))), ctx.timed(paid));
            let (mut call, mut paid) = (std::pin::pin!(call), std::pin::pin!(paid));
            loop {
                tokio::select! {
                    biased;
                    paid = &mut paid => return paid.map(|paid| json!([paid])),
                    () = &mut call => return Ok(json!("called")),
                    () = answers.next() => drop(ctx.recorded().await?),
                }
            }
        }
    })
}

/// spec remote: a wait ends while a call of the handler lasts, by its event or by its time. The one
/// record is that of the first.
pub(crate) async fn a_wait_ends_while_a_call_lasts(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = harness.engine().workflow(beside_a_call(&journal)).start().await.unwrap();
    let answered = start(&engine, "beside", json!(null)).await;
    harness.advance(secs(10)).await;
    assert_eq!(engine.send("paid", json!(7)).await.unwrap().woke, 1);
    harness.advance(secs(1)).await;
    assert_eq!(harness.completed(&engine, answered).await, json!([7]));
    let silent = start(&engine, "beside", json!(null)).await;
    harness.advance(secs(49)).await;
    assert_eq!(state(harness, "beside", silent).await, "running");
    harness.advance(secs(1)).await;
    assert_eq!(harness.completed(&engine, silent).await, json!([null]));
    assert_eq!(engine.send("paid", json!(8)).await.unwrap().woke, 0);
    for run in [answered, silent] {
        assert_eq!(recorded_steps(harness, run).await, ["paid"]);
    }
}

/// spec remote: a handler learns at once of a wait that ends as it begins: a call of an unknown
/// workflow, an event that was kept for the run.
pub(crate) async fn a_wait_that_ends_at_once_is_told(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let notes = journal.clone();
    let workflow = Workflow::new("beside", move |ctx: Ctx, data: Value| {
        let journal = notes.clone();
        async move {
            ctx.recorded().await?;
            ctx.step("kept", || async {
                journal.spend(secs(10)).await;
                Ok(())
            })
            .await?;
            let mut answers = ctx.answers();
            let wait = async {
                if data["call"] == true {
                    let child = ctx.invoke::<_, Value>("child", "nobody", json!(null));
                    return ctx.timed(child).await.map_err(|error| error.code().to_owned());
                }
                let paid = ctx.wait_for_event::<Value>("paid", "paid").timeout(secs(50));
                Ok(json!(ctx.timed(paid).await.unwrap()))
            };
            let call = ctx.busy(journal.spend(secs(100)));
            let (mut call, mut wait) = (std::pin::pin!(call), std::pin::pin!(wait));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut wait => return Ok(answer.unwrap_or_else(Value::from)),
                    () = &mut call => return Ok(json!("called")),
                    () = answers.next() => drop(ctx.recorded().await?),
                }
            }
        }
    });
    let workflow = workflow.waits_for(WaitsFor::event("paid").matching("id", "id"));
    let engine = harness.engine().workflow(workflow).start().await.unwrap();
    for (call, answer) in [(true, json!("UnknownWorkflow")), (false, json!({ "id": 1 }))] {
        let run = start(&engine, "beside", json!({ "id": 1, "call": call })).await;
        harness.advance(secs(1)).await;
        engine.send("paid", json!({ "id": 1 })).await.unwrap();
        harness.advance(secs(10)).await;
        assert_eq!(harness.completed(&engine, run).await, answer);
    }
}

/// spec remote: failed attempts that a handler counts are those of its step, and its last error is
/// returned.
pub(crate) async fn a_handler_counts_failed_attempts(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let notes = journal.clone();
    let workflow = Workflow::new("counts", move |ctx: Ctx, step: String| {
        let journal = notes.clone();
        async move {
            ctx.recorded().await?;
            loop {
                journal.note(format!("attempt {}", ctx.attempt(&step)));
                let error = StepError::coded("Down", "down").with_details(json!({ "a": 1 }));
                if let Err(error) = ctx.backoff(&step, error).await {
                    return Ok(json!([error.code(), error.details()]));
                }
            }
        }
    });
    let workflow = workflow.retry(Retry { jitter: false, ..Retry::attempts(3).fixed(secs(10)) });
    let engine = harness.engine().workflow(workflow).start().await.unwrap();
    for step in ["call", ""] {
        let run = start(&engine, "counts", json!(step)).await;
        harness.advance(secs(9)).await;
        assert_eq!(journal.take(), ["attempt 1"], "step `{step}`");
        harness.advance(secs(20)).await;
        assert_eq!(journal.take(), ["attempt 2", "attempt 3"], "step `{step}`");
        assert_eq!(harness.completed(&engine, run).await, json!(["Down", { "a": 1 }]));
    }
}
