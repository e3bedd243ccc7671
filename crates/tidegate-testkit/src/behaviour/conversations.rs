//! Conversations: a message and its reply are admitted together, and the reply starts when the run
//! of the message has completed.

use serde_json::{Value, json};
use tidegate_core::{
    command::{Answer, Answer::AdmittedBoth, Command},
    doctor::Checkup,
    id::RunId,
    idempotency_key::IdempotentRequest,
    reads::Change,
    row::{Ending, GateState, Run},
};
use tidegate_store::why;

use crate::{
    contract::change,
    world::{World, request},
};

async fn define(world: &World, append: Value, respond: Value) {
    let actions = json!({ "append": append, "respond": respond });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
}

fn saying(world: &World, input: &Value) -> Command {
    let call = |action| Box::new(request("chat", action, Some("s"), None, input));
    let ws = world.ws.clone();
    Command::DispatchThen { ws, first: call("append"), then: call("respond") }
}

/// Sends a message; returns the run of the message and the run of its reply.
async fn say(world: &World, n: u64) -> (RunId, RunId) {
    match world.run(saying(world, &json!({ "n": n }))).await {
        Ok(AdmittedBoth(append, Some(respond))) => {
            (append.verdict.run().unwrap(), respond.verdict.run().unwrap())
        }
        other => panic!("unexpected answer to a message: {other:?}"),
    }
}

fn quiet() -> Value {
    json!({ "concurrency": { "policy": "debounce", "periodMs": 1000 } })
}

async fn complete_all(world: &World) {
    for run in world.lease_all().await {
        world.complete(&run).await;
    }
}

fn ids(runs: &[Run]) -> Vec<RunId> {
    runs.iter().map(|run| run.id).collect()
}

async fn complete(world: &World, runs: &[Run], id: RunId) {
    world.complete(runs.iter().find(|run| run.id == id).expect("it was leased")).await;
}

/// spec chat: replies start in the order of their messages, whichever message run completes first.
pub async fn replies_start_in_the_order_of_their_messages(world: &World) {
    let (allow, queue) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "queue" }));
    define(world, allow, queue).await;
    let mut said = Vec::new();
    for n in 0..3 {
        said.push(say(world, n).await);
    }
    let appends = world.lease_all().await;
    assert_eq!(ids(&appends), said.iter().map(|it| it.0).collect::<Vec<_>>(), "only messages");
    let sentence = why(&*world.store, &world.ws, said[0].1).await.unwrap().unwrap().sentence;
    let starts = format!("it starts when {} has completed", said[0].0);
    assert!(sentence.starts_with(&starts), "{sentence}");
    for n in [2, 1] {
        complete(world, &appends, said[n].0).await;
        assert_eq!(
            world.lease_all().await,
            [],
            "the reply started before the first message completed"
        );
    }
    complete(world, &appends, said[0].0).await;
    for (_, reply) in said {
        let run = world.lease_one().await;
        assert_eq!(run.id, reply);
        world.complete(&run).await;
    }
    world.check_holds().await;
}

/// The reply to a message that failed or was cancelled is cancelled, and the next reply starts.
pub async fn a_message_that_did_not_get_in_has_no_reply(world: &World) {
    let (allow, queue) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "queue" }));
    define(world, allow, queue).await;
    let (failed, cancelled, good) = (say(world, 0).await, say(world, 1).await, say(world, 2).await);
    let appends = world.lease_all().await;
    complete(world, &appends, good.0).await;
    world.fail(&appends[0]).await;
    world.cancel(cancelled.0).await.unwrap();
    for (message, reply) in [failed, cancelled] {
        let reason = format!("{message} did not complete");
        let ending = world.ended(reply).await.unwrap().ending;
        assert_eq!(ending, Ending::Cancelled { reason, by: None });
    }
    assert_eq!(world.lease_one().await.id, good.1);
}

/// spec chat: if the reply is refused, the message is still stored.
pub async fn a_refused_reply_leaves_its_message(world: &World) {
    let (allow, reject) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "reject" }));
    define(world, allow, reject).await;
    let (first, reply) = say(world, 0).await;
    let answer = world.run(saying(world, &json!({}))).await.unwrap();
    let AdmittedBoth(second, Some(respond)) = &answer else { panic!("{answer:?}") };
    assert_eq!(respond.verdict.outcome(), "skipped", "{respond:?}");
    let appends = world.lease_all().await;
    assert_eq!(ids(&appends), [first, second.verdict.run().unwrap()]);
    for run in &appends {
        world.complete(run).await;
    }
    assert_eq!(world.drain().await, [reply]);
}

/// A refused message gets no reply and leaves no row.
pub async fn a_refused_message_has_no_reply(world: &World) {
    let once = json!({ "concurrency": "allow", "rateLimit": { "limit": 1, "perMs": 1000 } });
    define(world, once, json!({ "concurrency": "queue" })).await;
    say(world, 0).await;
    let answer = world.run(saying(world, &json!({}))).await.unwrap();
    let AdmittedBoth(refused, None) = &answer else { panic!("{answer:?}") };
    assert_eq!(refused.verdict.outcome(), "dropped");
    assert_eq!(world.drain().await.len(), 2, "expected one message and its reply");
}

/// With an idempotency key, a message that is sent again gets the same two runs.
pub async fn a_repeated_message_is_answered_once(world: &World) {
    let (allow, queue) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "queue" }));
    define(world, allow, queue).await;
    let once = || {
        let asked = IdempotentRequest { ws: world.ws.clone(), id: "k".into(), hash: "h".into() };
        Command::Once { asked, command: Box::new(saying(world, &json!({}))) }
    };
    let first = world.run(once()).await.unwrap();
    assert!(matches!(first, AdmittedBoth(..)), "{first:?}");
    assert_eq!(world.run(once()).await, Ok(Answer::Again(Box::new(first))));
    assert_eq!(world.drain().await.len(), 2);
}

/// A message that the idempotency of `append` takes for a repeat gets the reply of the first one:
/// while the first is pending, after it was answered, and after it failed.
pub async fn a_repetition_has_the_reply_of_the_first(world: &World) {
    let once = json!({ "concurrency": "allow", "idempotency": { "key": "input.n" } });
    define(world, once, json!({ "concurrency": "queue" })).await;
    let again = async |n: u64| match world.run(saying(world, &json!({ "n": n }))).await {
        Ok(AdmittedBoth(append, Some(respond))) => {
            let words = (append.verdict.outcome(), respond.verdict.outcome());
            assert_eq!(words, ("deduped", "deduped"));
            assert_eq!(respond.workflow, "chat/respond");
            (append.verdict.carrier().unwrap(), respond.verdict.carrier().unwrap())
        }
        other => panic!("unexpected answer to a message: {other:?}"),
    };
    let (good, failed) = (say(world, 0).await, say(world, 1).await);
    assert_eq!([again(0).await, again(1).await], [good, failed]);
    let appends = world.lease_all().await;
    complete(world, &appends, good.0).await;
    world.fail(&appends[1]).await;
    assert_eq!([again(0).await, again(1).await], [good, failed]);
    assert_eq!(world.drain().await, [good.1]);
    assert_eq!([again(0).await, again(1).await], [good, failed]);
    assert_eq!(world.drain().await, [], "a repeated message was answered again");
    assert_eq!(world.state(failed.1).await, "cancelled");
}

/// The repeat of a call that had no reply and failed gets no reply either.
pub async fn a_repetition_of_a_failed_call_has_no_reply(world: &World) {
    let once = json!({ "concurrency": "allow", "idempotency": { "key": "input.n" } });
    define(world, once, json!({ "concurrency": "queue" })).await;
    world.call("chat", "append", "s", json!({ "n": 0 })).await;
    world.fail(&world.lease_one().await).await;
    let answer = world.run(saying(world, &json!({ "n": 0 }))).await.unwrap();
    let AdmittedBoth(_, Some(respond)) = &answer else { panic!("{answer:?}") };
    assert_eq!(respond.verdict.outcome(), "rejected", "{respond:?}");
    assert_eq!(world.drain().await, []);
}

/// An engine of a version without replies ends a message without waking its reply: the sweep starts
/// the reply. Until then the doctor reports the two runs.
pub async fn a_reply_finds_out_that_its_message_has_ended(world: &World) {
    let (allow, queue) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "queue" }));
    define(world, allow, queue).await;
    let mut said = Vec::new();
    for n in 0..3 {
        said.push(say(world, n).await);
    }
    let appends = world.lease_all().await;
    for run in &appends {
        let forgotten = Run { then: None, ..world.live(run.id).await.unwrap() };
        change(&world.store, vec![Change::Update(forgotten.into())]).await.unwrap();
    }
    complete(world, &appends, said[0].0).await;
    world.fail(&appends[1]).await;
    let mut checkup = Checkup::without_limits();
    world.dump().await.iter().for_each(|row| checkup.see(row));
    let findings = checkup.conclude().findings;
    assert_eq!(findings.len(), 2, "expected two runs that wait for an ended run: {findings:?}");
    assert_eq!(world.lease_all().await, []);
    world.tick(60_000).await;
    assert_eq!(world.drain().await, [said[0].1]);
    world.sweep().await;
    assert_eq!(world.state(said[1].1).await, "cancelled");
    assert_eq!(world.state(said[2].1).await, "waiting", "a reply started before its message ended");
    complete(world, &appends, said[2].0).await;
    world.tick(60_000).await;
    assert_eq!(world.drain().await, [said[2].1]);
    world.check_holds().await;
}

/// Two actions of one session that call each other, in both orders: each run waits for older runs
/// only, so all of them end.
pub async fn calls_in_both_orders_come_to_their_end(world: &World) {
    let queue = json!({ "concurrency": "queue" });
    define(world, queue.clone(), queue).await;
    let mut all = Vec::new();
    for n in 0..3 {
        let command = saying(world, &json!({ "n": n }));
        let Command::DispatchThen { ws, first, then } = command else { unreachable!() };
        let command = if n % 2 == 0 {
            Command::DispatchThen { ws, first, then }
        } else {
            Command::DispatchThen { ws, first: then, then: first }
        };
        match world.run(command).await {
            Ok(AdmittedBoth(first, Some(then))) => {
                all.extend([first.verdict.run().unwrap(), then.verdict.run().unwrap()]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.drain().await, all);
    world.check_holds().await;
}

/// spec G2: until its message has completed, a reply holds its session, but no slot and no throttle
/// turn.
pub async fn a_reply_holds_no_slot_before_its_message_is_in(world: &World) {
    let limits = json!({
        "concurrency": ["queue", { "limit": 1 }], "throttle": { "limit": 1, "perMs": 1000 },
    });
    define(world, json!({ "concurrency": "allow" }), limits).await;
    let (first, reply) = say(world, 0).await;
    let other = world.call("chat", "respond", "other", json!({})).await.run().unwrap();
    let leased = world.lease_all().await;
    assert_eq!(
        ids(&leased),
        [first, other],
        "another session must get the slot and the throttle turn"
    );
    complete(world, &leased, first).await;
    complete(world, &leased, other).await;
    world.tick(1000).await;
    assert_eq!(world.drain().await, [reply]);
    world.check_holds().await;
}

/// Under `debounce` the run of the window waits for all messages that it answers.
pub async fn a_coalesced_reply_waits_for_all_messages(world: &World) {
    define(world, json!({ "concurrency": "allow" }), quiet()).await;
    let mut said = Vec::new();
    for n in 0..3 {
        said.push(say(world, n).await);
    }
    let reply = said[0].1;
    assert!(said.iter().all(|(_, same)| *same == reply), "{said:?}");
    let appends = world.lease_all().await;
    complete(world, &appends, said[1].0).await;
    world.tick(1000).await;
    for n in [2, 0] {
        assert_eq!(world.lease_all().await, [], "the reply started before message {n} completed");
        assert_eq!(world.state(reply).await, "waiting");
        complete(world, &appends, said[n].0).await;
    }
    assert_eq!(world.drain().await, [reply]);
    assert_eq!(world.input_of(reply).await["input"], json!({ "n": 2 }));
}

/// A coalesced reply starts if at least one of its messages completed, and is cancelled if none
/// did. It makes no difference whether they fail before or after the window fires.
pub async fn a_coalesced_reply_starts_if_one_message_got_in(world: &World) {
    define(world, json!({ "concurrency": "allow" }), quiet()).await;
    for (good, early) in [(0, 2), (0, 1), (0, 0), (1, 2), (1, 1), (1, 0), (2, 2), (2, 1), (2, 0)] {
        // Two messages. `good` is the number of the one that completes, if any; `early` is the
        // number of messages that end before the window fires.
        let said = [say(world, 0).await, say(world, 1).await];
        let appends = world.lease_all().await;
        for (n, run) in appends.iter().enumerate() {
            if n == early {
                world.tick(1000).await;
            }
            if n == good { world.complete(run).await } else { world.fail(run).await }
        }
        world.tick(1000).await;
        let (case, reply) = (format!("message {good} completes, {early} end early"), said[0].1);
        if good < 2 {
            assert_eq!(world.drain().await, [reply], "{case}");
        } else {
            assert_eq!(world.drain().await, [], "{case}");
            let ending = world.ended(reply).await.unwrap().ending;
            let Ending::Cancelled { reason, .. } = ending else {
                panic!("{case}: wrong ending {ending:?}")
            };
            let reasons = said.map(|(message, _)| format!("{message} did not complete"));
            assert!(reasons.iter().any(|it| reason.ends_with(it)), "{reason}; {case}");
        }
        world.check_holds().await;
    }
}

/// The list of pending messages that a reply waits for is bounded, however many messages the window
/// takes.
pub async fn a_window_remembers_only_messages_under_way(world: &World) {
    define(world, json!({ "concurrency": "allow" }), quiet()).await;
    for n in 0..40 {
        say(world, n).await;
        complete_all(world).await;
    }
    let last = say(world, 40).await;
    let gates = world.dump().await.into_iter().filter_map(|row| row.as_gate().cloned());
    let after = gates.filter_map(|gate| match gate.state {
        GateState::Fold(fold) => Some(fold.after),
        _ => None,
    });
    let after: Vec<_> = after.flatten().collect();
    assert!(after.len() <= 32 && after.contains(&last.0), "{}", after.len());
    world.tick(1000).await;
    assert_eq!(world.drain().await, [last.0, last.1]);
}

/// A reply that is ready loses its slot when a message joins it, and waits until that message has
/// completed.
pub async fn a_reply_that_is_ready_waits_for_a_message_that_joins(world: &World) {
    let mut quiet = quiet();
    quiet["concurrency"] = json!([quiet["concurrency"], { "limit": 1 }]);
    let (allow, queue) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "queue" }));
    let actions = json!({ "append": allow, "respond": quiet, "hold": queue });
    world.define_flow(json!({ "name": "chat", "actions": actions })).await;
    let holder = world.call("chat", "hold", "s", json!({})).await.run().unwrap();
    let (first, reply) = say(world, 0).await;
    let leased = world.lease_all().await;
    complete(world, &leased, first).await;
    world.tick(1000).await;
    complete(world, &leased, holder).await;
    assert_eq!(world.state(reply).await, "queued");
    let (last, same) = say(world, 1).await;
    assert_eq!((same, world.state(reply).await), (reply, "waiting"));
    world.check_holds().await;
    assert_eq!(world.drain().await, [last, reply]);
    assert_eq!(world.input_of(reply).await["input"], json!({ "n": 1 }));
}

/// Cancelling the reply does not cancel the message.
pub async fn a_cancelled_reply_leaves_its_message(world: &World) {
    let (allow, queue) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "queue" }));
    define(world, allow, queue).await;
    let ((first, reply), (second, next)) = (say(world, 0).await, say(world, 1).await);
    world.cancel(reply).await.unwrap();
    assert_eq!(world.drain().await, [first, second, next]);
}

/// A reply that was paused before its message completed starts after both the resume and the
/// completion.
pub async fn a_paused_reply_waits_for_its_message(world: &World) {
    let (allow, queue) = (json!({ "concurrency": "allow" }), json!({ "concurrency": "queue" }));
    define(world, allow, queue).await;
    let (ws, (first, reply)) = (world.ws.clone(), say(world, 0).await);
    world.run(Command::Pause { ws: ws.clone(), run: reply }).await.unwrap();
    world.run(Command::Resume { ws: ws.clone(), run: reply }).await.unwrap();
    assert_eq!(world.state(reply).await, "waiting");
    world.run(Command::Pause { ws: ws.clone(), run: reply }).await.unwrap();
    assert_eq!(world.drain().await, [first]);
    world.run(Command::Resume { ws, run: reply }).await.unwrap();
    assert_eq!(world.drain().await, [reply]);
}
