//! Requests: what each policy does when the session is busy.

use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Engine, Flow, Idempotency, Policy, Request, Retry, RunId, StepError, Workflow,
    new_request, testing::TestHarness,
};
use tidegate_core::{flow::Verdict, row::Ending};

use crate::words::{Journal, ms, n, secs, sharing, start, states};

/// An action that records its input `n` and works for some seconds, in a journal scope named after
/// its session.
pub(crate) fn act(journal: &Journal, name: &str, seconds: u64) -> Action {
    let journal = journal.clone();
    Action::new(name, move |ctx: Ctx, input: Value| {
        let journal = journal.clone();
        async move {
            let session = ctx.session().map(|session| session.id().to_owned()).unwrap_or_default();
            let work = ctx.step("work", || async {
                journal.work(&session, n(&input), secs(seconds)).await;
                Ok(())
            });
            work.await?;
            match input["end"].as_str() {
                Some("fail") => Err(StepError::new("no").fatal()),
                Some("panic") => panic!("a bug of the user"),
                _ => Ok(input),
            }
        }
    })
    .retry(Retry::attempts(1))
}

/// Returns a request for an action of the flow `chat` in a session.
pub(crate) fn call(action: &str, session: &str, input: Value) -> Request {
    let request = new_request("chat", action, input).unwrap();
    Request { session: Some(session.to_owned()), ..request }
}

pub(crate) async fn dispatch(engine: &Engine, request: Request) -> Verdict {
    engine.dispatch(request).await.unwrap().verdict
}

/// Dispatches a request that creates a run, and returns the run's id.
async fn ask(engine: &Engine, action: &str, session: &str, n: u32) -> RunId {
    dispatch(engine, call(action, session, json!({ "n": n }))).await.run().expect("it makes a run")
}

/// Starts an engine with a flow that has one action for each policy. Each action takes ten seconds.
async fn chat(harness: &TestHarness, journal: &Journal) -> Engine {
    let flow = Flow::new("chat")
        .action(act(journal, "plain", 10))
        .action(act(journal, "append", 10).policy(Policy::allow()))
        .action(act(journal, "respond", 10).policy(Policy::queue()))
        .action(act(journal, "summarise", 10).policy(Policy::reject()))
        .action(act(journal, "edit", 10).policy(Policy::restart()))
        .action(act(journal, "index", 10).policy(Policy::debounce(secs(1))));
    harness.engine().flow(flow).start().await.unwrap()
}

/// spec B1, B2, B7, B28: without a policy, with `allow`, or with the key `none`, all requests run
/// at once.
pub(crate) async fn without_a_policy_everything_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let free = act(&journal, "free", 10).policy(Policy::reject().key("none"));
    let flow = Flow::new("chat").action(act(&journal, "plain", 10)).action(free);
    let flow = flow.action(act(&journal, "append", 10).policy(Policy::allow()));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    for action in ["plain", "append", "free"] {
        for n in 0..3 {
            let verdict = dispatch(&engine, call(action, action, json!({ "n": n }))).await;
            assert_eq!(verdict.outcome(), "started");
        }
        harness.settle().await;
        assert_eq!(journal.inside(action), 3);
    }
}

/// spec B5, B6, B8: the policy of the action applies. If it has none, the whole policy of the flow
/// applies, with its key.
pub(crate) async fn the_action_decides_else_the_flow(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let flow = Flow::new("chat")
        .policy(Policy::reject().key("user"))
        .action(act(&journal, "by_default", 10))
        .action(act(&journal, "own", 10).policy(Policy::queue()))
        .action(act(&journal, "free", 10).policy(Policy::allow()));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let send = async |action: &str| {
        let request = Request { user: Some("u".to_owned()), ..call(action, "s", json!({})) };
        dispatch(&engine, request).await.outcome()
    };
    assert_eq!([send("by_default").await, send("by_default").await], ["started", "skipped"]);
    assert_eq!([send("own").await, send("own").await], ["started", "queued"]);
    assert_eq!(send("free").await, "started");
}

/// spec B10, B11, B12, B13, B23: requests of a session run one after another, in order, each once,
/// however the earlier ones end. Other sessions are not affected.
pub(crate) async fn a_queue_is_served_in_order(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = chat(harness, &journal).await;
    for (n, end) in ["complete", "fail", "panic", "complete"].into_iter().enumerate() {
        let verdict = dispatch(&engine, call("respond", "s", json!({ "n": n, "end": end }))).await;
        assert_eq!(verdict.outcome(), if n == 0 { "started" } else { "queued" });
    }
    ask(&engine, "respond", "t", 9).await;
    harness.advance(secs(60)).await;
    let expected = [(0, "0"), (0, "9"), (10_000, "1"), (20_000, "2"), (30_000, "3")];
    assert_eq!(journal.take_times(), expected.map(|(at, n)| (at, n.to_owned())));
    assert_eq!(journal.most("s"), 1);
    let ended = ["completed", "failed", "failed", "completed", "completed"];
    assert_eq!(states(harness, "chat/respond").await, ended);
}

/// spec B14, B15, B16, B17, B19, B40, N37: a request to a busy session is refused, and the verdict
/// names the holder. A refused request leaves no row. When the holder has ended, the session is
/// free.
pub(crate) async fn reject_names_the_holder(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = chat(harness, &journal).await;
    for (n, end) in ["complete", "fail", "panic"].into_iter().enumerate() {
        let request = call("summarise", "s", json!({ "n": n, "end": end }));
        let holder = dispatch(&engine, request).await.run().expect("the session is free");
        harness.advance(secs(5)).await;
        let answer = dispatch(&engine, call("summarise", "s", json!({}))).await.to_value();
        assert_eq!((&answer["outcome"], &answer["holder"]), (&json!("skipped"), &json!(holder)));
        // The refused caller can wait for the holder.
        let (ended, ()) = tokio::join!(engine.ended(holder), harness.advance(secs(5)));
        assert_eq!(ended.unwrap().id, holder);
    }
    harness.advance(secs(60)).await;
    assert_eq!((journal.take().len(), harness.runs("chat/summarise").await.len()), (3, 3));
}

/// spec B18: of concurrent requests to two engines, exactly one is admitted.
pub(crate) async fn of_requests_at_once_one_is_admitted(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let flow = || Flow::new("chat").action(act(&journal, "act", 10).policy(Policy::reject()));
    let one = sharing(harness).flow(flow()).start().await.unwrap();
    let two = sharing(harness).flow(flow()).start().await.unwrap();
    for n in 0..5 {
        let session = n.to_string();
        let request = || call("act", &session, json!({ "n": n }));
        let verdicts = tokio::join!(dispatch(&one, request()), dispatch(&two, request()));
        let mut outcomes = [verdicts.0.outcome(), verdicts.1.outcome()];
        outcomes.sort_unstable();
        assert_eq!(outcomes, ["skipped", "started"]);
    }
    harness.advance(secs(12)).await;
    assert_eq!(states(harness, "chat/act").await, ["completed"; 5]);
}

/// spec N33: a session is busy while any run holds it or is queued for it. Requests with `allow` do
/// not check that.
pub(crate) async fn reject_sees_who_waits(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = chat(harness, &journal).await;
    let holder = ask(&engine, "respond", "s", 0).await;
    let waiter = ask(&engine, "respond", "s", 1).await;
    harness.advance(secs(10)).await;
    harness.completed(&engine, holder).await;
    let answer = dispatch(&engine, call("summarise", "s", json!({}))).await.to_value();
    assert_eq!(answer["holder"], json!(waiter));
    let plain = dispatch(&engine, call("plain", "s", json!({}))).await;
    assert_eq!(plain.outcome(), "started");
}

/// spec B44, G7, replace: `restart` replaces the running run. Queued runs keep their positions in
/// the queue. The new run sees the recorded steps of the old one.
pub(crate) async fn restart_replaces_the_holder(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = chat(harness, &journal).await;
    let first = ask(&engine, "respond", "s", 0).await;
    ask(&engine, "respond", "s", 1).await;
    harness.advance(secs(5)).await;
    let verdict = dispatch(&engine, call("edit", "s", json!({ "n": 2 }))).await;
    assert!(matches!(verdict, Verdict::Replaced { replaced, .. } if replaced == first));
    let edit = verdict.run();
    harness.advance(secs(60)).await;
    let expected = [(0, "0"), (5000, "2"), (15_000, "1")];
    assert_eq!(journal.take_times(), expected.map(|(at, n)| (at, n.to_owned())));
    assert_eq!(journal.most("s"), 1);
    let ended = engine.ended(first).await.unwrap().ending;
    assert_eq!(ended, Ending::Cancelled { reason: "replaced".to_owned(), by: edit });
}

/// spec B43, controls: a burst of requests makes one run. It waits for the running one and takes
/// newer input until it starts. No run is cancelled.
pub(crate) async fn debounce_coalesces_and_never_cancels(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let engine = chat(harness, &journal).await;
    ask(&engine, "respond", "s", 0).await;
    let mut runs = Vec::new();
    for n in 1..=4 {
        let verdict = dispatch(&engine, call("index", "s", json!({ "n": n }))).await;
        assert_eq!(verdict.outcome(), "coalesced");
        runs.extend(verdict.run());
        harness.advance(ms(2000)).await;
    }
    assert!(runs.iter().all(|run| *run == runs[0]));
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), [(0, "0".to_owned()), (10_000, "4".to_owned())]);
    assert_eq!(harness.completed(&engine, runs[0]).await, json!({ "n": 4 }));
}

/// spec B41, B42: `reject` considers live runs only; idempotency also considers ended ones.
pub(crate) async fn reject_and_idempotency_are_apart(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let once = || Idempotency::within(secs(1000)).key("input.id");
    let both = act(&journal, "both", 10).policy(Policy::reject()).idempotency(once());
    let only = act(&journal, "only", 10).idempotency(once());
    let flow = Flow::new("chat").action(both).action(only);
    let engine = harness.engine().flow(flow).start().await.unwrap();
    let send = async |action: &str, id: u32| {
        dispatch(&engine, call(action, "s", json!({ "id": id }))).await.outcome()
    };
    assert_eq!([send("both", 1).await, send("both", 1).await], ["started", "deduped"]);
    assert_eq!(send("both", 2).await, "skipped");
    harness.advance(secs(10)).await;
    assert_eq!([send("both", 1).await, send("both", 2).await], ["deduped", "started"]);
    assert_eq!([send("only", 3).await, send("only", 4).await], ["started"; 2]);
}

/// spec N31, N32: a request leaves the queue when its maximum wait is over, and a request that is
/// cancelled in the queue never runs. The requests behind it advance.
pub(crate) async fn who_gives_up_its_place_never_runs(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let hasty = act(&journal, "hasty", 10).policy(Policy::queue().at_most(secs(5)));
    let flow = Flow::new("chat").action(hasty);
    let flow = flow.action(act(&journal, "respond", 10).policy(Policy::queue()));
    let engine = harness.engine().flow(flow).start().await.unwrap();
    ask(&engine, "respond", "s", 0).await;
    let hasty = ask(&engine, "hasty", "s", 1).await;
    let cancelled = ask(&engine, "respond", "s", 2).await;
    ask(&engine, "respond", "s", 3).await;
    engine.cancel(cancelled, "not needed").await.unwrap();
    let (ended, ()) = tokio::join!(engine.ended(hasty), harness.advance(secs(5)));
    let ending = ended.unwrap().ending;
    let Ending::Cancelled { reason, by: None } = ending else { panic!("{ending:?}") };
    assert!(reason.contains("maxWaitMs"), "{reason}");
    harness.advance(secs(60)).await;
    assert_eq!(journal.take_times(), [(0, "0".to_owned()), (10_000, "3".to_owned())]);
}

/// spec G8, N40: a request whose key is held by its ancestor is refused at once.
pub(crate) async fn a_key_held_by_an_ancestor_is_refused(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let between = Workflow::new("between", |ctx: Ctx, input: Value| async move {
        ctx.invoke::<_, Value>("call", "chat/inner", input).await
    });
    let outer = Action::new("outer", |ctx: Ctx, _: Value| async move {
        ctx.invoke::<_, Value>("call", "between", json!({ "session": "s", "input": 1 })).await
    });
    let inner = act(&journal, "inner", 1).policy(Policy::queue());
    let flow = Flow::new("chat").action(outer.policy(Policy::queue())).action(inner);
    let engine = harness.engine().workflow(between).flow(flow).start().await.unwrap();
    let outer = ask(&engine, "outer", "s", 0).await;
    harness.settle().await;
    let fault = engine.output::<Value>(outer).await.unwrap().unwrap_err();
    assert!(fault.message().contains("HeldByAncestor"), "{fault:?}");
    // The same call from a run of another session succeeds.
    let other = ask(&engine, "outer", "t", 0).await;
    harness.advance(secs(1)).await;
    assert_eq!(harness.completed(&engine, other).await, json!(1));
    let alone = start(&engine, "between", json!({ "session": "s", "input": 2 })).await;
    harness.advance(secs(1)).await;
    assert_eq!(harness.completed(&engine, alone).await, json!(2));
}
