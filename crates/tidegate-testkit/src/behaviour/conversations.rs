//! Conversations: a message and its reply are admitted together, and the reply starts when the
//! message is in.

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

/// Sends a message; returns the run that takes it in and the run that answers it.
async fn say(world: &World, n: u64) -> (RunId, RunId) {
    match world.run(saying(world, &json!({ "n": n }))).await {
        Ok(AdmittedBoth(append, Some(respond))) => {
            (append.verdict.run().unwrap(), respond.verdict.run().unwrap())
        }
        other => panic!("a message was answered {other:?}"),
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

/// spec chat: the reply's position is its message's, in whichever order the messages are taken in.
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
        assert_eq!(world.lease_all().await, [], "the first message is not in yet");
    }
    complete(world, &appends, said[0].0).await;
    for (_, reply) in said {
        let run = world.lease_one().await;
        assert_eq!(run.id, reply);
        world.complete(&run).await;
    }
    world.check_holds().await;
}

/// The reply to a message that failed or was cancelled is cancelled, and the next one starts.
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

/// spec chat: a refused reply is no reason to lose the message.
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

/// A message that is refused gets no reply, and leaves nothing.
pub async fn a_refused_message_has_no_reply(world: &World) {
    let once = json!({ "concurrency": "allow", "rateLimit": { "limit": 1, "perMs": 1000 } });
    define(world, once, json!({ "concurrency": "queue" })).await;
    say(world, 0).await;
    let answer = world.run(saying(world, &json!({}))).await.unwrap();
    let AdmittedBoth(refused, None) = &answer else { panic!("{answer:?}") };
    assert_eq!(refused.verdict.outcome(), "dropped");
    assert_eq!(world.drain().await.len(), 2, "one message and its reply");
}

/// Under an idempotency key a message that is sent again is the same message.
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

/// A message that the append's idempotency takes for a repetition has the reply of the first: while
/// the first is pending, when it has been answered, and when it failed.
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
        other => panic!("a message was answered {other:?}"),
    };
    let (good, failed) = (say(world, 0).await, say(world, 1).await);
    assert_eq!([again(0).await, again(1).await], [good, failed]);
    let appends = world.lease_all().await;
    complete(world, &appends, good.0).await;
    world.fail(&appends[1]).await;
    assert_eq!([again(0).await, again(1).await], [good, failed]);
    assert_eq!(world.drain().await, [good.1]);
    assert_eq!([again(0).await, again(1).await], [good, failed]);
    assert_eq!(world.drain().await, [], "each is answered once");
    assert_eq!(world.state(failed.1).await, "cancelled");
}

/// A repetition of a call that had no reply, and failed, has none either.
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

/// An engine of a version that does not know of replies ends a message without waking its reply:
/// the reply finds out. Until then the doctor reports it.
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
    assert_eq!(findings.len(), 2, "two runs wait for one that has ended: {findings:?}");
    assert_eq!(world.lease_all().await, []);
    world.tick(60_000).await;
    assert_eq!(world.drain().await, [said[0].1]);
    world.sweep().await;
    assert_eq!(world.state(said[1].1).await, "cancelled");
    assert_eq!(world.state(said[2].1).await, "waiting", "its message goes on");
    complete(world, &appends, said[2].0).await;
    world.tick(60_000).await;
    assert_eq!(world.drain().await, [said[2].1]);
    world.check_holds().await;
}

/// Two actions of one session that call each other in both orders wait for older runs only.
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

/// spec G2: until its message is in, a reply holds its session but no slot and no turn.
pub async fn a_reply_holds_no_slot_before_its_message_is_in(world: &World) {
    let limits = json!({
        "concurrency": ["queue", { "limit": 1 }], "throttle": { "limit": 1, "perMs": 1000 },
    });
    define(world, json!({ "concurrency": "allow" }), limits).await;
    let (first, reply) = say(world, 0).await;
    let other = world.call("chat", "respond", "other", json!({})).await.run().unwrap();
    let leased = world.lease_all().await;
    assert_eq!(ids(&leased), [first, other], "another session takes slot and turn");
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
        assert_eq!(world.lease_all().await, [], "message {n} is not in yet");
        assert_eq!(world.state(reply).await, "waiting");
        complete(world, &appends, said[n].0).await;
    }
    assert_eq!(world.drain().await, [reply]);
    assert_eq!(world.input_of(reply).await["input"], json!({ "n": 2 }));
}

/// A coalesced reply starts if one of its messages got in, and is cancelled if none did, whether
/// they fail before the window fires or after.
pub async fn a_coalesced_reply_starts_if_one_message_got_in(world: &World) {
    define(world, json!({ "concurrency": "allow" }), quiet()).await;
    for (good, early) in [(0, 2), (0, 1), (0, 0), (1, 2), (1, 1), (1, 0), (2, 2), (2, 1), (2, 0)] {
        // Two messages: `good` is the one that gets in, if any; `early` of them end first.
        let said = [say(world, 0).await, say(world, 1).await];
        let appends = world.lease_all().await;
        for (n, run) in appends.iter().enumerate() {
            if n == early {
                world.tick(1000).await;
            }
            if n == good { world.complete(run).await } else { world.fail(run).await }
        }
        world.tick(1000).await;
        let (case, reply) = (format!("{good} gets in, {early} early"), said[0].1);
        if good < 2 {
            assert_eq!(world.drain().await, [reply], "{case}");
        } else {
            assert_eq!(world.drain().await, [], "{case}");
            let ending = world.ended(reply).await.unwrap().ending;
            let Ending::Cancelled { reason, .. } = ending else { panic!("{ending:?}; {case}") };
            let reasons = said.map(|(message, _)| format!("{message} did not complete"));
            assert!(reasons.iter().any(|it| reason.ends_with(it)), "{reason}; {case}");
        }
        world.check_holds().await;
    }
}

/// However many messages a window takes, the list of pending ones that its run waits for is
/// bounded.
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

/// A message that joins a reply which is ready to start takes its slot back until it is in.
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

/// A reply that was paused before its message was in starts when both are over.
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
