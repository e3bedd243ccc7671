//! Waits: for a time, an event, a signal or a child.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Command, Refusal},
    event::Posted,
    row::Run,
    run::record::{NewWait, Record, Recorded, Then, Until},
};

use crate::{
    worker::{again, for_child, for_event, for_event_with, for_signal},
    world::{World, event, payload},
};

async fn waiting(world: &World, n: u32, wait: NewWait) -> Run {
    let run = world.drive("order", json!({ "n": n })).await;
    world.suspend(&run, vec![wait]).await;
    run
}

/// spec waits: a sleep ends exactly at its time and is recorded as a step.
pub async fn a_sleep_ends_at_its_moment(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    world.sleep(&run, "nap", 1000).await;
    assert_eq!(world.state(run.id).await, "waiting");
    world.tick(999).await;
    assert_eq!(world.state(run.id).await, "waiting", "the run woke a millisecond too early");
    assert_eq!(world.came_of(run.id, "nap").await, None);
    world.tick(1).await;
    assert_eq!(world.came_of(run.id, "nap").await, Some(Ok("null".to_owned())));
    let again = world.lease_one().await;
    assert_eq!((again.id, again.fence), (run.id, run.fence + 1));
    world.complete(&again).await;
    world.check_quiet().await;
}

/// spec N16: an event wakes every run with a matching wait, and the answer to the post has their
/// number. The payload of the event is the result of the wait.
pub async fn one_event_wakes_all_who_match(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let any = waiting(world, 1, for_event("paid", "payment")).await;
    let mine = for_event_with("paid", "payment", &[("order.id", json!(7))]);
    let seven = waiting(world, 2, mine.clone()).await;
    let also_seven = waiting(world, 3, mine).await;
    let other = waiting(world, 4, for_event_with("paid", "payment", &[("order.id", json!(8))]));
    let other = other.await;
    let text = waiting(world, 5, for_event_with("paid", "payment", &[("order.id", json!("7"))]));
    let text = text.await;
    let refund = waiting(world, 6, for_event("paid", "refund")).await;
    let posted = world.post("payment", json!({ "order": { "id": 7.0 }, "by": "card" })).await;
    assert_eq!(
        (posted.woke, posted.runs.len()),
        (3, 0),
        "the event must wake three runs and start none"
    );
    let answer = Some(Ok(r#"{"by":"card","order":{"id":7.0}}"#.to_owned()));
    for run in [&any, &seven, &also_seven] {
        assert_eq!(
            world.came_of(run.id, "paid").await,
            answer,
            "the result must be the payload of the event"
        );
        assert_eq!(world.state(run.id).await, "queued");
    }
    for run in [&other, &text, &refund] {
        assert_eq!(world.state(run.id).await, "waiting");
    }
    assert_eq!(
        world.post("payment", json!({ "order": { "id": 7 } })).await.woke,
        0,
        "a wait was answered twice"
    );
}

/// spec waits: if a match has several fields, all of them must match.
pub async fn all_fields_of_a_match_must_match(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let fields = [("id", json!("a")), ("paid", json!(true)), ("user.id", json!(1))];
    let run = waiting(world, 1, for_event_with("paid", "payment", &fields)).await;
    let table = [
        (json!({ "id": "a", "paid": true }), 0),
        (json!({ "id": "a", "paid": false, "user": { "id": 1 } }), 0),
        (json!({ "id": "b", "paid": true, "user": { "id": 1 } }), 0),
        (json!({ "id": "a", "paid": "true", "user": { "id": 1 } }), 0),
        (json!({ "id": "a", "paid": true, "user": { "id": 1 } }), 1),
    ];
    for (data, woke) in table {
        assert_eq!(world.post("payment", data.clone()).await.woke, woke, "{data}");
    }
    assert_eq!(world.state(run.id).await, "queued");
}

/// spec N17: only events after the begin of the wait count, also within one transaction.
pub async fn an_event_from_before_the_wait_does_not_end_it(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let early = world.drive("order", json!({ "n": 1 })).await;
    let late = world.drive("order", json!({ "n": 2 })).await;
    assert_eq!(
        world.post("payment", json!({ "n": 0 })).await.woke,
        0,
        "an event woke a run that does not wait yet"
    );
    let wait = |run: &Run| Command::Record {
        known: Box::new(run.clone()),
        report: Record::new(
            run.id.seq,
            world.engine,
            run.fence,
            Then::Suspend(vec![for_event("paid", "payment")]),
        ),
    };
    let post =
        Command::Post { ws: world.ws.clone(), events: vec![event("payment", &json!({ "n": 1 }))] };
    let mut answers = world.batch(vec![wait(&early), post, wait(&late)]).await;
    let Ok(Answer::Posted(posted)) = answers.remove(1) else {
        panic!("unexpected answer to the post")
    };
    assert_eq!(posted.first().map(|posted: &Posted| posted.woke), Some(1));
    assert_eq!(world.came_of(early.id, "paid").await, Some(Ok(r#"{"n":1}"#.to_owned())));
    assert_eq!(world.state(late.id).await, "waiting", "an event from before the wait woke the run");
    assert_eq!(world.post("payment", json!({ "n": 2 })).await.woke, 1);
    assert_eq!(world.came_of(late.id, "paid").await, Some(Ok(r#"{"n":2}"#.to_owned())));
}

/// spec N16: a wait that times out gets the result null; later events do not wake the run.
pub async fn a_wait_that_runs_out_gives_null(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let until = Some(Until::In(500));
    let run = waiting(world, 1, NewWait { until, ..for_event("paid", "payment") }).await;
    let deaf = waiting(world, 2, NewWait { until, ..for_signal("paid", "payment") }).await;
    world.tick(499).await;
    assert_eq!(world.state(run.id).await, "waiting");
    world.tick(1).await;
    for run in [&run, &deaf] {
        assert_eq!(world.came_of(run.id, "paid").await, Some(Ok("null".to_owned())));
        assert_eq!(world.state(run.id).await, "queued");
    }
    assert_eq!(world.post("payment", json!({})).await.woke, 0);
    world.drain().await;
    world.check_quiet().await;
}

/// spec waits: a run has two waits, and the second is answered while the run is driven because of
/// the first: no answer is lost.
pub async fn a_wait_is_answered_while_its_run_is_driven_for_another(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let both = || vec![for_event("paid", "payment"), for_signal("go", "go")];
    let run = world.drive("order", json!({})).await;
    world.suspend(&run, both()).await;
    world.post("payment", json!(1)).await;
    let driven = world.lease_one().await;
    assert_eq!(world.signal(run.id, "go", json!(2)).await, Ok(Answer::Done));
    assert_eq!(
        world.came_of(run.id, "go").await,
        Some(Ok("2".to_owned())),
        "the signal must be stored while the run is driven"
    );
    // The worker has not seen the signal, and reports that it waits for it.
    world.suspend(&driven, vec![for_signal("go", "go")]).await;
    let driven = world.lease_one().await;
    assert_eq!(world.steps(run.id).await.len(), 2);
    world.complete(&driven).await;

    // The other way round: first the signal, and a report that adds no wait.
    let run = world.drive("order", json!({})).await;
    world.suspend(&run, both()).await;
    assert_eq!(world.signal(run.id, "go", json!(3)).await, Ok(Answer::Done));
    let driven = world.lease_one().await;
    assert_eq!(world.post("payment", json!(4)).await.woke, 1);
    world.record(&driven, "log", json!("seen")).await.expect("the lease is good");
    world.suspend(&driven, Vec::new()).await;
    let driven = world.lease_one().await;
    assert_eq!(world.came_of(run.id, "paid").await, Some(Ok("4".to_owned())));
    world.complete(&driven).await;
    world.check_quiet().await;
}

/// spec N51, B165: signals are stored in order until the run waits for their name.
pub async fn signals_are_kept_in_the_inbox(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.start("order", json!({})).await;
    for (name, n) in [("go", 1), ("stop", 2), ("go", 3), ("go", 4)] {
        assert_eq!(world.signal(run, name, json!(n)).await, Ok(Answer::Done), "not yet started");
    }
    let mut driven = world.lease_one().await;
    for (step, expected) in [("first", "1"), ("second", "3")] {
        world.suspend(&driven, vec![for_signal(step, "go")]).await;
        driven = world.lease_one().await;
        assert_eq!(world.came_of(run, step).await, Some(Ok(expected.to_owned())));
    }
    world.suspend(&driven, vec![for_signal("other", "else")]).await;
    assert_eq!(world.signal(run, "go", json!(5)).await, Ok(Answer::Done));
    assert_eq!(world.state(run).await, "waiting", "a signal of another name woke the run");
    assert_eq!(world.signal(run, "else", Value::Null).await, Ok(Answer::Done));
    let driven = world.lease_one().await;
    let two = vec![for_signal("third", "go"), for_signal("fourth", "go")];
    world.suspend(&driven, two).await;
    let driven = world.lease_one().await;
    assert_eq!(world.came_of(run, "third").await, Some(Ok("4".to_owned())));
    assert_eq!(world.came_of(run, "fourth").await, Some(Ok("5".to_owned())), "one each");
    world.complete(&driven).await;
}

/// spec N52: a signal to a driven run is delivered when the run waits for it, also after the loss
/// of its worker.
pub async fn a_signal_to_a_driven_run_is_not_lost(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    assert_eq!(world.signal(run.id, "go", json!("now")).await, Ok(Answer::Done));
    assert_eq!(world.lose(world.engine).await, 1);
    let world = world.engine(2);
    let driven = world.lease_one().await;
    world.suspend(&driven, vec![for_signal("go", "go")]).await;
    assert_eq!(
        world.state(run.id).await,
        "queued",
        "the wait must be answered at once by the stored signal"
    );
    assert_eq!(world.came_of(run.id, "go").await, Some(Ok(r#""now""#.to_owned())));
    world.drain().await;
    assert_eq!(
        world.signal(run.id, "go", json!(1)).await,
        Err(Refusal::Ended { run: run.id, state: "completed" })
    );
}

/// spec N19, G2: the output, failure or cancellation of a child is the result of its parent's wait.
/// The waiting parent holds no slot, so both can use the only slot of their workflow.
pub async fn what_became_of_a_child_reaches_its_parent(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
    let expected = [Ok(r#""done""#), Err("Boom"), Err("Cancelled"), Err("Cancelled")];
    for (n, expected) in expected.into_iter().enumerate() {
        let parent = world.drive("order", json!({ "n": n })).await;
        world.suspend(&parent, vec![for_child("child", "order", &json!({ "of": n }))]).await;
        assert_eq!(world.state(parent.id).await, "waiting");
        let child = world.lease_one().await;
        match n {
            0 => world.complete(&child).await,
            1 => world.fail(&child).await,
            _ => assert_eq!(world.cancel(child.id).await, Ok(Answer::Done)),
        }
        let result = world.came_of(parent.id, "child").await.expect("an answer at once");
        assert_eq!(result.as_deref().map_err(|fault| fault.code.as_str()), expected);
        if n == 2 {
            world.stopped(&child).await;
        } else if n == 3 {
            assert!(
                world.lease_all().await.is_empty(),
                "the parent woke although the child holds the slot"
            );
            world.stopped(&child).await;
        }
        let parent = world.lease_one().await;
        world.complete(&parent).await;
    }
    world.check_quiet().await;
}

/// spec A5, G8, N40: if a gate refuses a child, the parent's step fails at once, with the reason.
pub async fn a_refused_child_fails_the_step(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "cancel" } })).await;
    world.define(json!({ "name": "single", "singleton": { "mode": "skip" } })).await;
    let handoff = json!({ "type": "keyed", "keyField": "id", "onNewVersion": "drain" });
    world.define(json!({ "name": "keyed", "handoff": handoff })).await;
    let holder = world.drive("single", json!({})).await;
    let parent = world.drive("order", json!({})).await;
    let waits = vec![
        for_child("own", "order", &json!({})),
        for_child("busy", "single", &json!({})),
        for_child("keyless", "keyed", &json!({ "no": "key" })),
        for_child("unknown", "nowhere", &json!({})),
    ];
    world.suspend(&parent, waits).await;
    let driven = world.lease_one().await;
    assert_eq!(driven.id, parent.id, "the child replaced its own parent");
    let id = |run: &Run| run.id.to_string();
    let expected = [
        ("own", "HeldByAncestor", id(&parent)),
        ("busy", "Refused", id(&holder)),
        ("keyless", "Refused", "handoff".to_owned()),
        ("unknown", "UnknownWorkflow", "nowhere".to_owned()),
    ];
    for (step, code, named) in expected {
        let fault = world.came_of(parent.id, step).await.expect("answered").expect_err("refused");
        assert_eq!(fault.code, code);
        assert!(fault.message.contains(&named), "{} names {named}", fault.message);
    }
    let busy = world.came_of(parent.id, "busy").await.expect("answered").expect_err("refused");
    assert!(
        busy.message.contains("singleton"),
        "the error does not name the control: {}",
        busy.message
    );
    world.complete(&driven).await;
    world.complete(&holder).await;
    world.check_quiet().await;
}

/// spec G8: a grandchild is refused at a gate that its grandparent holds. An executing slot of a
/// waiting parent does not block its child.
pub async fn an_ancestor_is_known_over_generations(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "skip" } })).await;
    world.define(json!({ "name": "between", "concurrency": { "limit": 1 } })).await;
    let parent = world.drive("order", json!({})).await;
    world.suspend(&parent, vec![for_child("child", "between", &json!({}))]).await;
    let child = world.lease_one().await;
    // The signal wakes the child at once; the child also starts a run of `order`.
    world.signal(child.id, "go", json!({})).await.expect("it lives");
    let waits = vec![
        for_signal("go", "go"),
        for_child("grandchild", "order", &json!({})),
        for_child("alike", "between", &json!({})),
    ];
    world.suspend(&child, waits).await;
    let fault = world.came_of(child.id, "grandchild").await.expect("answered");
    let fault = fault.expect_err("refused");
    assert_eq!(fault.code, "HeldByAncestor");
    assert!(fault.message.contains(&parent.id.to_string()), "{}", fault.message);
    assert_eq!(
        world.came_of(child.id, "alike").await,
        None,
        "the child of the same workflow must wait for the slot"
    );
    assert_eq!(world.alive("between").await, 2);
    let driven = world.lease_one().await;
    world.suspend(&driven, vec![for_child("alike", "between", &json!({}))]).await;
    assert_eq!(world.drain().await.len(), 3, "expected the grandchild, the child and the parent");
    world.check_quiet().await;
}

/// spec waits: a step that waits too long for a child fails; the child continues.
pub async fn a_child_that_takes_too_long_fails_the_step(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let parent = world.drive("order", json!({})).await;
    let until = Some(Until::In(100));
    let wait = NewWait { until, ..for_child("child", "order", &json!({})) };
    world.suspend(&parent, vec![wait]).await;
    let child = world.lease_one().await;
    world.tick(100).await;
    let fault = world.came_of(parent.id, "child").await.expect("answered").expect_err("too late");
    assert_eq!(fault.code, "TimedOut");
    let parent = world.lease_one().await;
    world.complete(&child).await;
    world.complete(&parent).await;
    world.check_quiet().await;
}

/// spec B63, N20: between two attempts a run waits for the backoff without a slot.
pub async fn a_retry_waits_its_time_without_a_slot(world: &World) {
    world.define(json!({ "name": "order", "concurrency": { "limit": 1 } })).await;
    let run = world.drive("order", json!({ "n": 1 })).await;
    world.start("order", json!({ "n": 2 })).await;
    let retry = Then::Suspend(vec![again("pay", 300)]);
    world.report(&run, Vec::new(), retry).await.expect("the lease is good");
    let second = world.lease_one().await;
    world.tick(299).await;
    assert_eq!(world.state(run.id).await, "waiting");
    world.complete(&second).await;
    world.tick(1).await;
    let again = world.lease_one().await;
    assert_eq!((again.id, again.failures["pay"]), (run.id, 1));
    assert!(world.steps(run.id).await.is_empty(), "a failed attempt was recorded as a step");
    world.record(&again, "pay", json!("ok")).await.expect("the lease is good");
    assert_eq!(world.live(run.id).await.expect("it lives").failures.len(), 0);
    world.complete(&again).await;
    world.check_quiet().await;
}

/// spec waits, B164, B165: a run is woken once, even if it is swept twice, or swept and answered at
/// the same time.
pub async fn a_run_is_woken_once(world: &World) {
    world.define(json!({ "name": "order" })).await;
    let run = world.drive("order", json!({})).await;
    let until = Some(Until::In(10));
    world.suspend(&run, vec![NewWait { until, ..for_signal("go", "go") }]).await;
    world.pass(10);
    let sweep = || Command::SweepRun { ws: world.ws.clone(), run: run.id.seq };
    let (name, data) = ("go".to_owned(), payload(&json!(1)));
    let signal = Command::Signal { ws: world.ws.clone(), run: run.id, name, data };
    for answer in world.batch(vec![sweep(), signal, sweep()]).await {
        assert_eq!(answer, Ok(Answer::Done));
    }
    assert_eq!(world.came_of(run.id, "go").await, Some(Ok("null".to_owned())), "it came first");
    let driven = world.lease_one().await;
    assert!(world.lease_all().await.is_empty());
    world.suspend(&driven, vec![for_signal("again", "go")]).await;
    assert_eq!(world.came_of(run.id, "again").await, Some(Ok("1".to_owned())), "and it is kept");
}

/// spec N18, replace: an event that a step sends is posted in the transaction that records the
/// step, once, and never with an old fence.
pub async fn a_step_sends_its_event_once(world: &World) {
    world.define(json!({ "name": "order" })).await;
    world.define(json!({ "name": "told" })).await;
    let run = world.drive("order", json!({})).await;
    world.suspend(&run, vec![for_event("heard", "told"), world.nap("nap", 1)]).await;
    world.tick(1).await;
    let first = world.lease_one().await;
    let reply = || event("told", &json!({ "by": "order" }));
    // The worker reports two times, because the answer was lost; the next worker reports again.
    for _ in 0..2 {
        assert_eq!(world.tell(&first, "tell", reply()).await, Ok(Recorded::GoOn));
    }
    assert_eq!(world.lose(world.engine).await, 1);
    let fenced = Err(Refusal::Fenced { run: run.id.seq, fence: first.fence });
    assert_eq!(world.tell(&first, "again", reply()).await, fenced);
    let world = world.engine(2);
    let leased = world.lease_all().await;
    let [again, other] = leased.as_slice() else { panic!("expected two leased runs: {leased:?}") };
    assert_eq!(
        (again.id, other.workflow.as_str()),
        (run.id, "told"),
        "the event must start one run of `told`"
    );
    assert_eq!(world.tell(again, "tell", reply()).await, Ok(Recorded::GoOn));
    assert!(world.lease_all().await.is_empty());
    let output = world.came_of(run.id, "tell").await.expect("recorded").expect("an output");
    assert!(output.contains("\"woke\":1"), "the output must be the answer to the post: {output}");
    let heard = world.came_of(run.id, "heard").await;
    assert_eq!(
        heard,
        Some(Ok(r#"{"by":"order"}"#.to_owned())),
        "the event must answer a wait of its own sender"
    );
    world.complete(again).await;
    world.complete(other).await;
    world.check_quiet().await;
}

/// spec replace: a run that sends an event which replaces the run itself is told to stop; the event
/// and the step are recorded.
pub async fn a_run_can_replace_itself_by_what_it_sends(world: &World) {
    world.define(json!({ "name": "order", "singleton": { "mode": "cancel" } })).await;
    let old = world.drive("order", json!({})).await;
    let answer = world.tell(&old, "again", event("order", &json!({ "n": 2 }))).await;
    assert_eq!(answer, Ok(Recorded::Stop));
    assert_eq!(world.state(old.id).await, "cancelled");
    assert!(world.came_of(old.id, "again").await.is_some());
    assert!(
        world.lease_all().await.is_empty(),
        "the new run started before the worker of the old one stopped"
    );
    world.stopped(&old).await;
    let new = world.lease_one().await;
    assert_eq!(new.replaced, Some(old.id));
    world.complete(&new).await;
    world.check_quiet().await;
}

/// spec N16: all matching runs are woken, in any number and whatever gates they have to pass.
pub async fn one_event_wakes_a_crowd(world: &World) {
    let slots = json!([{ "limit": 1, "key": "n" }, { "limit": 1000 }]);
    world.define(json!({ "name": "order", "concurrency": slots })).await;
    for n in 0..100 {
        world.start("order", json!({ "n": n })).await;
    }
    for run in world.lease_all().await {
        world.suspend(&run, vec![for_event("paid", "payment")]).await;
    }
    assert_eq!(world.post("payment", json!({})).await.woke, 100);
    assert_eq!(world.drain().await.len(), 100);
    world.check_quiet().await;
}

/// spec waits: a step is recorded once. A wait for a recorded step gets the record as its result,
/// and uses no signal, child or event.
pub async fn a_recorded_step_is_not_waited_for_again(world: &World) {
    world.define(json!({ "name": "order" })).await;
    world.define(json!({ "name": "child" })).await;
    let waits = [
        world.nap("it", 1000),
        for_event("it", "payment"),
        for_signal("it", "go"),
        for_child("it", "child", &json!({})),
    ];
    for wait in waits {
        // The step is recorded before the wait begins, or while it lasts.
        for before in [true, false] {
            let mut run = world.drive("order", json!({})).await;
            if !before {
                world.suspend(&run, vec![wait.clone(), for_signal("up", "up")]).await;
                world.signal(run.id, "up", json!({})).await.expect("it waits");
                let mut leased = world.lease_all().await;
                run = leased.remove(leased.iter().position(|it| it.id == run.id).expect("woken"));
            }
            world.record(&run, "it", json!(1)).await.expect("the lease is good");
            if before {
                world.signal(run.id, "go", json!(2)).await.expect("it lives");
                world.suspend(&run, vec![wait.clone(), for_event("other", "refund")]).await;
                assert_eq!(world.alive("child").await, 0, "{wait:?}");
                run = world.lease_one().await;
            }
            assert_eq!(world.post("payment", json!({})).await.woke, 0, "{wait:?}");
            world.tick(1000).await;
            assert_eq!(world.came_of(run.id, "it").await, Some(Ok("1".to_owned())), "{wait:?}");
            if before {
                world.suspend(&run, vec![for_signal("next", "go")]).await;
                run = world.lease_one().await;
                assert_eq!(world.came_of(run.id, "next").await, Some(Ok("2".to_owned())));
            }
            world.complete(&run).await;
            for child in world.dump().await {
                let tidegate_core::row::Row::Run(child) = child else { continue };
                world.complete(&child).await;
            }
            world.check_quiet().await;
        }
    }
}

/// spec waits: of several waits of one step in one report, only the first counts.
pub async fn one_step_waits_for_one_thing(world: &World) {
    world.define(json!({ "name": "order" })).await;
    world.define(json!({ "name": "child" })).await;
    let child = || for_child("it", "child", &json!({}));
    let event = || for_event("it", "payment");
    for waits in [vec![child(), child()], vec![child(), event()], vec![event(), child()]] {
        let run = world.drive("order", json!({})).await;
        world.suspend(&run, waits.clone()).await;
        let children = world.lease_all().await;
        assert_eq!(children.len(), usize::from(waits[0] == child()), "{waits:?}");
        let posted = world.post("payment", json!("paid")).await;
        assert_eq!(posted.woke, u32::from(waits[0] == event()), "{waits:?}");
        for child in children {
            world.complete(&child).await;
        }
        let run = world.lease_one().await;
        assert_eq!(world.steps(run.id).await.len(), 1, "{waits:?}");
        world.complete(&run).await;
        world.check_quiet().await;
    }
}
