//! Reactions: order, retries, leases, effects exactly once, and fairness between streams.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::{
    Action, Ctx, Engine, EngineBuilder, Flow, Reaction, ReactionCtx, StepError, StreamEvent,
    StreamQuery, StreamView, Workflow, new_request, testing::TestHarness,
};
use tidegate_core::{
    command::{Command, StreamCommand},
    json::Payload,
    reaction::{Backoff, BackoffKind, Filter, StreamSelection},
    row::{Row, StreamEventRow},
    stream::{Commit, NewLogged},
};
use tidegate_store::commit;

use crate::{
    faults::{Failure, Faults},
    words::{Door, Journal, Marks, secs, states},
};

/// Returns an engine that polls the store every second, because the events of these stories are
/// committed past it, as by another process.
pub(crate) fn looking(harness: &TestHarness) -> EngineBuilder {
    harness.engine().poll_interval(secs(1))
}

/// Commits events past the engine, as another process does, and advances the clock by a second.
pub(crate) async fn append(harness: &TestHarness, stream: &str, events: &[(&str, Value)]) {
    append_quietly(harness, stream, events).await;
    harness.advance(secs(1)).await;
}

/// Commits events past the engine, as another process does.
pub(crate) async fn append_quietly(harness: &TestHarness, stream: &str, events: &[(&str, Value)]) {
    let meta = Payload::from_value(&json!({}));
    let events = events.iter().map(|(name, data)| NewLogged {
        name: (*name).to_owned(),
        data: Payload::from_value(data),
        meta: meta.clone(),
    });
    let (ws, stream, events) = ("default".into(), stream.to_owned(), events.collect());
    let append = Commit { ws, stream, events, expected: None };
    let command = StreamCommand::Commit(append);
    let command = Command::Stream { ws: "default".into(), command };
    // The salt only has to be unique per commit.
    let salt = u64::try_from(harness.now().micros()).unwrap();
    for answer in commit(&**harness.store(), vec![(command, salt)]).await.unwrap() {
        answer.unwrap();
    }
}

/// Returns `count` events named `n`, each with its number as data.
pub(crate) fn numbered(count: usize) -> Vec<(&'static str, Value)> {
    (0..count).map(|n| ("n", json!(n))).collect()
}

/// A reaction that records the stream and the version of each event, and takes `time` for each.
pub(crate) fn noting(journal: &Journal, name: &str, time: Duration) -> Reaction {
    let journal = journal.clone();
    Reaction::new(name).on_any(move |ctx: ReactionCtx, event: StreamEvent| {
        let journal = journal.clone();
        async move {
            journal.work("all", format!("{} {}", ctx.stream(), event.version), time).await;
            Ok(())
        }
    })
}

/// Returns a reaction's position in a stream.
pub(crate) async fn view(engine: &Engine, reaction: &str, stream: &str) -> StreamView {
    let query = StreamQuery { reaction: Some(reaction.to_owned()), ..StreamQuery::default() };
    let page = engine.query_streams(&query).await.unwrap();
    page.streams.into_iter().find(|view| view.stream == stream).expect("it has a position")
}

/// Returns all events of a stream, in order.
pub(crate) async fn log(harness: &TestHarness, stream: &str) -> Vec<StreamEventRow> {
    let rows = harness.store().dump().await.unwrap();
    let id = rows.iter().find_map(|row| match row {
        Row::Stream(it) if it.name == stream => Some(it.id),
        _ => None,
    });
    let events = rows.iter().filter_map(|row| match row {
        Row::StreamEventRow(event) if Some(event.stream) == id => Some(event.clone()),
        _ => None,
    });
    let mut events: Vec<StreamEventRow> = events.collect();
    events.sort_by_key(|event| event.version);
    events
}

fn named(streams: &[&str]) -> StreamSelection {
    StreamSelection::Names(streams.iter().map(|stream| (*stream).to_owned()).collect())
}

/// spec B194, B195, B200, B215: every event is handled once; the events of one stream are handled
/// in order, and streams in parallel, up to the reaction's limit.
pub(crate) async fn streams_are_handled_in_order_and_side_by_side(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let reaction = noting(&journal, "mail", secs(10)).parallel_streams(3).source("s-*");
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    for stream in ["s-1", "s-2", "s-3", "s-4", "other"] {
        append_quietly(harness, stream, &numbered(4)).await;
    }
    harness.advance(secs(101)).await;
    assert_eq!(journal.most("all"), 3);
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in journal.take() {
        let (stream, version) = line.split_once(' ').unwrap();
        seen.entry(stream.to_owned()).or_default().push(version.to_owned());
    }
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["s-1", "s-2", "s-3", "s-4"]);
    for (stream, versions) in seen {
        assert_eq!(versions, ["0", "1", "2", "3"], "{stream}");
        let view = view(&engine, "mail", &stream).await;
        assert_eq!((view.position, view.want, view.holder), (3, 3, None));
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Account {
    Opened { owner: String },
    Deposited(u64),
}

/// spec B192, B224: a handler of typed events gets only events of its type. The events that it
/// commits have the correlation id of the handled event, and that event as their cause. A reaction
/// to the new events is woken at once.
pub(crate) async fn typed_events_are_handled_and_committed(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let gift =
        Reaction::new("gift").source("account-*").on(async |ctx: ReactionCtx, event: Account| {
            if let Account::Opened { owner } = event {
                ctx.commit(ctx.stream(), [Account::Deposited(5)])?;
                ctx.commit_named("owners", "named", json!({ "owner": owner }))?;
            }
            Ok(())
        });
    let follows = noting(&journal, "follows", Duration::ZERO).source("owners");
    let engine = looking(harness).reaction(gift).reaction(follows).start().await.unwrap();
    harness.settle().await;
    let opened = ("Opened", json!({ "owner": "ann" }));
    append_quietly(harness, "account-1", &[opened, ("Renamed", json!("bob"))]).await;
    append(harness, "account-1", &[("Renamed", json!("eve"))]).await;
    let events = log(harness, "account-1").await;
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["Opened", "Renamed", "Renamed", "Deposited"]);
    assert_eq!(events[3].data.as_str(), "5");
    let opened = events[0].id.to_string();
    let meta: Value = serde_json::from_str(events[3].meta.as_str()).unwrap();
    assert_eq!(meta, json!({ "correlation": opened, "causation": opened }));
    assert_eq!(
        view(&engine, "gift", "account-1").await.position,
        3,
        "the reaction must also pass the event that it committed"
    );
    assert_eq!(
        journal.take_times(),
        [(1000, "owners 0".to_owned())],
        "the second reaction must be woken at once, not by polling"
    );
}

/// spec B201, B202, B205, B206, B210: the events before a failing one are acked. The failing event
/// is retried up to the limit; then its stream is blocked, and other streams are not. When the
/// stream is unblocked, it continues at its position.
pub(crate) async fn a_failing_event_is_tried_again_then_blocks(harness: &TestHarness) {
    let marks = Marks::default();
    let noted = marks.clone();
    let reaction =
        Reaction::new("mail").max_retries(2).on_any(move |ctx: ReactionCtx, event: StreamEvent| {
            let times = noted.mark(format!("{} {}", ctx.stream(), event.version));
            async move {
                if ctx.stream() == "bad" && event.version == 1 && times <= 3 {
                    return Err(StepError::coded("Sour", "no milk"));
                }
                Ok(())
            }
        });
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    append_quietly(harness, "bad", &numbered(3)).await;
    append(harness, "good", &numbered(1)).await;
    let count = |what: &str| marks.count(what);
    assert_eq!((count("bad 0"), count("bad 1"), count("bad 2"), count("good 0")), (1, 3, 0, 1));
    let stuck = view(&engine, "mail", "bad").await;
    assert_eq!((stuck.position, stuck.want, stuck.failures), (0, 2, 3));
    let reason = stuck.blocked.unwrap();
    assert_eq!(reason, "failed 3 times, maxRetries is 2: Sour: no milk");
    append(harness, "bad", &numbered(1)).await;
    assert_eq!(count("bad 1"), 3, "a blocked stream must not be claimed");
    let all = StreamSelection::Where(Filter::default());
    assert_eq!(engine.unblock("mail", all).await.unwrap(), ["bad"]);
    harness.settle().await;
    assert_eq!((count("bad 0"), count("bad 1"), count("bad 3")), (1, 4, 1));
    assert_eq!(view(&engine, "mail", "bad").await.blocked, None);
    let unknown = engine.unblock("nobody", StreamSelection::All).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no reaction `nobody`");
}

/// spec B203, B204: an error that is not retryable blocks the stream at once, and so does an event
/// that cannot be read. A panic counts as a failure. With `block_on_error(false)`, an event is
/// retried without end.
pub(crate) async fn a_final_error_blocks_at_once(harness: &TestHarness) {
    let marks = Marks::default();
    let failing = |name: &str, marks: &Marks| {
        let (marks, which) = (marks.clone(), name.to_owned());
        Reaction::new(name).on_any(move |_, _| {
            let times = marks.mark(which.clone());
            let final_error = which == "final";
            async move {
                assert!(final_error || times > 20, "the handler panics");
                if final_error { Err(StepError::new("never").fatal()) } else { Ok(()) }
            }
        })
    };
    let typed = Reaction::new("typed").on(async |_: ReactionCtx, _: Account| Ok(()));
    let engine = looking(harness)
        .reaction(failing("final", &marks))
        .reaction(failing("panics", &marks).block_on_error(false))
        .reaction(typed)
        .start()
        .await
        .unwrap();
    append(harness, "a", &[("Deposited", json!("not a number"))]).await;
    assert_eq!((marks.count("final"), marks.count("panics")), (1, 21));
    let answer = view(&engine, "final", "a").await.blocked.unwrap();
    assert_eq!(answer, "failed with an error that is not retryable: Error: never");
    let answer = view(&engine, "typed", "a").await.blocked.unwrap();
    assert!(answer.contains("BadEvent: event `Deposited` cannot be read as"), "{answer}");
    assert_eq!(view(&engine, "panics", "a").await.position, 0);
}

/// spec B216, N67: the delay before a retry is exact, whether the definition or the handler sets
/// it. A handler may defer its stream: that is no failure, and discards the effects of the handler.
pub(crate) async fn a_try_waits_for_its_time(harness: &TestHarness) {
    let (journal, marks) = (Journal::new(harness), Marks::default());
    let kind = BackoffKind::Linear;
    let backoff = Backoff { kind, ms: 10_000, max_ms: 60_000, jitter: false };
    let noted = journal.clone();
    let reaction = Reaction::new("mail").backoff(&backoff).on_any(
        move |ctx: ReactionCtx, event: StreamEvent| {
            noted.note(event.version);
            let times = marks.mark(event.version.to_string());
            async move {
                match (event.version, times) {
                    (0, 1 | 2) => Err(StepError::new("busy")),
                    (0, 3) => Err(StepError::new("come later").retry_after(secs(45))),
                    (1, 1) => {
                        ctx.commit_named("never", "never", 0)?;
                        ctx.defer_for(secs(100));
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        },
    );
    append_quietly(harness, "a", &numbered(2)).await;
    // The engine never polls: its own timer has to wake it at the due time.
    let engine = harness.engine().reaction(reaction).start().await.unwrap();
    harness.advance(secs(80)).await;
    let moments = [0, 10, 30, 75, 75].map(|seconds| seconds * 1000);
    assert_eq!(journal.take_moments(), moments);
    let view = view(&engine, "mail", "a").await;
    assert_eq!((view.position, view.failures, view.claims), (0, 0, 0));
    harness.advance(secs(100)).await;
    assert_eq!(journal.take_times(), [(175_000, "1".to_owned())]);
    assert_eq!(log(harness, "never").await, []);
}

/// A retry that is due earlier than another waiting retry happens at its own time.
pub(crate) async fn a_try_that_is_due_first_waits_for_no_other(harness: &TestHarness) {
    let (journal, marks) = (Journal::new(harness), Marks::default());
    let noted = journal.clone();
    let reaction = Reaction::new("mail").on_any(move |ctx: ReactionCtx, _: StreamEvent| {
        noted.note(ctx.stream());
        let (stream, times) = (ctx.stream().to_owned(), marks.mark(ctx.stream()));
        let wait = if stream == "late" { 60 } else { 10 };
        async move {
            let busy = StepError::new("busy").retry_after(secs(wait));
            if times == 1 { Err(busy) } else { Ok(()) }
        }
    });
    // The engine never polls: its own timer has to wake it at the due time.
    let engine = harness.engine().reaction(reaction).start().await.unwrap();
    for stream in ["late", "soon"] {
        let event = tidegate::events::new("n", json!(1)).unwrap();
        engine.streams().commit(stream, vec![event], None).await.unwrap();
        harness.settle().await;
    }
    harness.advance(secs(70)).await;
    let tries = [(0, "late"), (0, "soon"), (10_000, "soon"), (60_000, "late")];
    assert_eq!(journal.take_times(), tries.map(|(at, stream)| (at, stream.to_owned())));
}

/// spec B212, B213, N68: a lease is renewed while its handler runs, so that no other engine claims
/// the stream. If the engine crashes, another engine claims the stream when the lease has expired,
/// and no failure is counted.
pub(crate) async fn a_lease_outlasts_its_handler_but_not_its_engine(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let reaction = || noting(&journal, "mail", secs(600));
    let first = looking(harness).reaction(reaction()).start().await.unwrap();
    harness.settle().await;
    append(harness, "a", &numbered(2)).await;
    let second = looking(harness).reaction(reaction()).start().await.unwrap();
    harness.advance(secs(610)).await;
    assert_eq!(journal.take_times(), [(1000, "a 0".to_owned()), (601_000, "a 1".to_owned())]);
    assert_eq!(journal.inside("all"), 1);
    harness.crash(&first).await;
    harness.advance(secs(33)).await;
    let lines = journal.take_times();
    let [(moment, line)] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(line, "a 1", "only the event without an ack must be handled again");
    assert!(
        (640_000..=642_000).contains(moment),
        "the stream must be claimed when the lease has expired, got {moment} ms"
    );
    let view = view(&second, "mail", "a").await;
    assert_eq!((view.position, view.failures, view.claims), (0, 0, 1));
    assert!(view.holder.is_some() && view.lease_end.is_some());
}

/// spec B214: a handler whose lease was lost is stopped at the next renewal, and its event is not
/// acked. The new holder starts at the stream's stored position.
pub(crate) async fn a_lost_lease_stops_the_handler(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let noted = journal.clone();
    let reaction =
        Reaction::new("mail").source("a").on_any(move |ctx: ReactionCtx, event: StreamEvent| {
            let noted = noted.clone();
            async move {
                ctx.commit_named("letters", "sent", event.version)?;
                noted.work("all", event.version, secs(25)).await;
                Ok(())
            }
        });
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    append(harness, "a", &numbered(2)).await;
    harness.advance(secs(30)).await;
    assert_eq!(journal.take(), ["0", "1"]);
    assert_eq!(engine.reset("mail", named(&["a"])).await.unwrap(), ["a"]);
    harness.advance(secs(10)).await;
    assert_eq!(journal.inside("all"), 0, "the handler must be stopped when its lease is lost");
    harness.advance(secs(100)).await;
    let times = journal.take_times();
    assert_eq!(times.len(), 2, "after the reset each event must be handled once: {times:?}");
    let sent: Vec<_> =
        log(harness, "letters").await.iter().map(|it| it.data.as_str().to_owned()).collect();
    assert_eq!(sent, ["0", "0", "1"], "version 0 was acked before the reset, version 1 was not");
    let refused =
        engine.reset("mail", StreamSelection::Where(Filter::default())).await.unwrap_err();
    assert!(refused.to_string().contains("needs all: true"), "{refused}");
}

/// spec N79: a shutdown releases streams at once, acks the handled events, and counts no failure. A
/// drain lets handlers finish, and claims no more streams.
pub(crate) async fn a_shutdown_gives_streams_back_at_once(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let reaction = || noting(&journal, "mail", secs(20)).batch_size(1);
    let first = looking(harness).reaction(reaction()).start().await.unwrap();
    harness.settle().await;
    append(harness, "a", &numbered(3)).await;
    harness.advance(secs(5)).await;
    first.shutdown().await;
    let second = looking(harness).reaction(reaction()).start().await.unwrap();
    harness.settle().await;
    let place = view(&second, "mail", "a").await;
    assert_eq!((place.position, place.failures, place.claims), (-1, 0, 1));
    let draining = second.clone();
    let drain = tokio::spawn(async move { draining.drain(secs(60)).await });
    harness.advance(secs(30)).await;
    drain.await.unwrap();
    assert_eq!(journal.take_times(), [(1000, "a 0".to_owned()), (6000, "a 0".to_owned())]);
    let third = looking(harness).reaction(reaction()).start().await.unwrap();
    harness.settle().await;
    let place = view(&third, "mail", "a").await;
    assert_eq!(
        (place.position, place.claims),
        (0, 1),
        "a drain must let the handler in progress finish"
    );
}

/// Events that were committed before a reaction was defined are handled, too, unless the reaction
/// starts at the head.
pub(crate) async fn a_new_reaction_is_brought_up_to_old_streams(harness: &TestHarness) {
    for n in 0..7 {
        append_quietly(harness, &format!("old-{n}"), &numbered(2)).await;
    }
    append_quietly(harness, "young", &numbered(1)).await;
    let journal = Journal::new(harness);
    let heads = Journal::new(harness);
    let engine = looking(harness)
        .reaction(noting(&journal, "all", Duration::ZERO).source("old-*"))
        .reaction(noting(&heads, "heads", Duration::ZERO).from_head())
        .start()
        .await
        .unwrap();
    harness.settle().await;
    assert_eq!(journal.take().len(), 14);
    assert_eq!(heads.take(), [""; 0]);
    append(harness, "young", &numbered(1)).await;
    assert_eq!(heads.take(), ["young 1"]);
    assert_eq!(view(&engine, "all", "old-3").await.position, 1);
}

/// The same with more streams than one read returns.
pub(crate) async fn a_new_reaction_is_brought_up_to_many_streams(harness: &TestHarness) {
    let count = 501;
    for n in 0..count {
        append_quietly(harness, &format!("old-{n}"), &numbered(1)).await;
    }
    let journal = Journal::new(harness);
    let reaction = noting(&journal, "all", Duration::ZERO).source("old-*");
    let _engine = looking(harness).reaction(reaction).start().await.unwrap();
    harness.settle().await;
    assert_eq!(journal.take().len(), count);
}

/// A flow with one action that returns at once.
fn shop() -> Flow {
    Flow::new("shop").action(Action::new("ship", async |_: Ctx, _: Value| Ok(())))
}

/// A reaction to orders that commits an event, sends an event and calls an action for each.
fn ordering(marks: &Marks) -> Reaction {
    let marks = marks.clone();
    Reaction::new("ordering").source("orders-*").on_any(
        move |ctx: ReactionCtx, event: StreamEvent| {
            marks.mark(ctx.idempotency_key());
            async move {
                let order: Value = serde_json::from_str(event.data.as_str())?;
                ctx.commit_named("letters", "sent", &order)?;
                ctx.send("pack", &order)?;
                ctx.start(new_request("shop", "ship", &order)?);
                Ok(())
            }
        },
    )
}

fn serving(builder: EngineBuilder, marks: &Marks) -> EngineBuilder {
    let pack = Workflow::new("pack", async |_: Ctx, _: Value| Ok(()));
    builder.workflow(pack).flow(shop()).reaction(ordering(marks))
}

/// spec B178, B181: whichever commit fails, before or after it is durable, all effects of a handler
/// happen exactly once. The idempotency key for external effects is the same at every attempt.
pub(crate) async fn effects_happen_once_whatever_fails(harness: &TestHarness, faults: &Faults) {
    let marks = Marks::default();
    let _engine = serving(looking(harness).lease_ttl(secs(30)), &marks).start().await.unwrap();
    let mut orders = 0;
    for failure in [Failure::BeforeCommit, Failure::AfterCommit, Failure::Unavailable] {
        for after in 0..8 {
            append_quietly(harness, &format!("orders-{}", orders % 3), &[("made", json!(orders))])
                .await;
            faults.fail(after, failure);
            harness.advance(secs(60)).await;
            // An idle engine makes no transactions, so some planned failures never happen.
            assert!(
                faults.is_over() || after > 2,
                "the effects must take at least three transactions"
            );
            orders += 1;
            let answer = format!("{failure:?} of transaction {after}");
            let letters = log(harness, "letters").await;
            let sent: Vec<String> =
                letters.iter().map(|event| event.data.as_str().to_owned()).collect();
            let expected: Vec<String> = (0..orders).map(|n| n.to_string()).collect();
            assert_eq!(sent, expected, "{answer}");
            for workflow in ["pack", "shop/ship"] {
                assert_eq!(states(harness, workflow).await, vec!["completed"; orders], "{answer}");
            }
        }
    }
    let mut keys = marks.all();
    assert!(keys.len() >= orders);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), orders, "all attempts at an event must have the same idempotency key");
}

/// spec B181: if an engine crashes between a handler and its ack, no effect is committed. The next
/// engine commits all of them.
pub(crate) async fn a_crash_before_the_ack_leaves_no_effect(harness: &TestHarness) {
    let door = Door::closed();
    let marks = Marks::default();
    let reaction = |door: &Door| {
        let (door, marks) = (door.clone(), marks.clone());
        Reaction::new("mail").source("orders-*").on_any(
            move |ctx: ReactionCtx, event: StreamEvent| {
                let (door, marks) = (door.clone(), marks.clone());
                async move {
                    ctx.commit_named("letters", "sent", event.version)?;
                    marks.mark(event.version.to_string());
                    if event.version == 2 {
                        door.pass().await;
                    }
                    Ok(())
                }
            },
        )
    };
    let first = looking(harness).reaction(reaction(&door)).start().await.unwrap();
    append(harness, "orders-1", &numbered(4)).await;
    assert_eq!(marks.all(), ["0", "1", "2"]);
    assert_eq!(log(harness, "letters").await, [], "effects were committed before the ack");
    harness.crash(&first).await;
    door.open();
    let _second = looking(harness).reaction(reaction(&door)).start().await.unwrap();
    harness.advance(secs(32)).await;
    let sent = log(harness, "letters").await;
    assert_eq!(
        sent.iter().map(|it| it.data.as_str().to_owned()).collect::<Vec<_>>(),
        ["0", "1", "2", "3"]
    );
}

/// An effect that the store refuses is a failure of its event: the earlier events are acked, and no
/// other effect of the failed event is committed.
pub(crate) async fn a_refused_effect_is_a_failure_of_its_event(harness: &TestHarness) {
    let reaction = Reaction::new("mail").source("orders-*").max_retries(0).on_any(
        async |ctx: ReactionCtx, event: StreamEvent| {
            ctx.commit_named("letters", "sent", event.version)?;
            if event.version == 2 {
                ctx.start(new_request("nobody", "nothing", json!({}))?);
            }
            Ok(())
        },
    );
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    append(harness, "orders-1", &numbered(5)).await;
    let sent = log(harness, "letters").await;
    assert_eq!(sent.iter().map(|it| it.data.as_str().to_owned()).collect::<Vec<_>>(), ["0", "1"]);
    let stuck = view(&engine, "mail", "orders-1").await;
    assert_eq!((stuck.position, stuck.failures), (1, 1));
    let answer = stuck.blocked.unwrap();
    assert!(
        answer.contains("NotKept: an effect was refused: no version of `nobody/nothing`"),
        "{answer}"
    );
}

/// spec B217, N62: of n streams that have work, each is claimed within ⌈n / parallel⌉ claims,
/// however many events one of them has or gets.
pub(crate) async fn a_flood_on_one_stream_starves_no_other(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let reaction = noting(&journal, "mail", Duration::ZERO).parallel_streams(1).batch_size(10);
    append_quietly(harness, "flood", &numbered(500)).await;
    for n in 0..20 {
        harness.advance(Duration::from_millis(1)).await;
        append_quietly(harness, &format!("s-{n:02}"), &numbered(1)).await;
    }
    let _engine = looking(harness).reaction(reaction).start().await.unwrap();
    harness.settle().await;
    let lines = journal.take();
    assert_eq!(lines.len(), 520);
    let last = lines.iter().rposition(|line| line.starts_with("s-")).unwrap();
    let before = lines[..last].iter().filter(|line| line.starts_with("flood")).count();
    assert!(
        before <= 20,
        "{before} events of the flood were handled before the last other stream had its turn"
    );
}

/// spec B208, B209, B222, N67, N71: operators can list stuck streams page by page, without a lease.
/// They can defer or prioritize streams by name or by filter.
pub(crate) async fn operators_see_and_steer(harness: &TestHarness) {
    let journal = Journal::new(harness);
    let reaction = noting(&journal, "mail", secs(5)).parallel_streams(1).source("s-*");
    let engine = looking(harness).reaction(reaction).start().await.unwrap();
    for n in 0..5 {
        append_quietly(harness, &format!("s-{n}"), &numbered(1)).await;
        harness.advance(Duration::from_millis(1)).await;
    }
    harness.advance(secs(1)).await;
    let mut query = StreamQuery { limit: 2, ..StreamQuery::default() };
    let mut streams = Vec::new();
    loop {
        let page = engine.query_streams(&query).await.unwrap();
        assert!(page.streams.len() <= 2);
        streams.extend(page.streams);
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let names: Vec<&str> = streams.iter().map(|view| view.stream.as_str()).collect();
    assert_eq!(names, ["s-0", "s-1", "s-2", "s-3", "s-4"]);
    let held: Vec<bool> = streams.iter().map(|view| view.holder.is_some()).collect();
    assert_eq!(held, [true, false, false, false, false]);
    let until = harness.now().plus_ms(60_000);
    let filter = Filter { stream: Some("^s-".to_owned().try_into().unwrap()), ..Filter::default() };
    let put_off = engine.defer("mail", StreamSelection::Where(filter), until).await.unwrap();
    assert_eq!(
        put_off,
        ["s-1", "s-2", "s-3", "s-4"],
        "all streams except the one being handled must be deferred"
    );
    assert_eq!(view(&engine, "mail", "s-2").await.due, Some(until));
    assert_eq!(engine.prioritize("mail", named(&["s-4", "gone"])).await.unwrap(), ["s-4"]);
    assert_eq!(engine.prioritize("mail", named(&[])).await.unwrap(), [""; 0]);
    harness.advance(secs(100)).await;
    let lines = journal.take_times();
    let order: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(order, ["s-0 0", "s-4 0", "s-1 0", "s-2 0", "s-3 0"]);
    assert!(lines[1].0 >= 61_000, "a deferred stream was handled before its time: {lines:?}");
}

/// All errors in reactions are reported at once, before any reaction is defined.
pub(crate) async fn a_bad_reaction_is_refused(harness: &TestHarness) {
    let idle = |name: &str| Reaction::new(name).on_any(async |_, _| Ok(()));
    let error = harness
        .engine()
        .reaction(idle("twice"))
        .reaction(idle("twice"))
        .reaction(idle("$own").source("a*b"))
        .reaction(Reaction::new("lazy").batch_size(0).parallel_streams(0))
        .start()
        .await
        .unwrap_err()
        .to_string();
    for said in [
        "reaction `twice`: name is given twice",
        "reaction `$own`: source may have one * at its end, got `a*b`",
        "reaction `$own`: name may not begin with $",
        "reaction `lazy`: batch must be at least 1, got 0",
        "reaction `lazy`: parallelStreams must be 1 to 1000, got 0",
        "reaction `lazy`: handler is required",
    ] {
        assert!(error.contains(said), "{said}\n{error}");
    }
    let rows = harness.store().dump().await.unwrap();
    assert!(
        !rows.iter().any(|row| matches!(row, Row::Def(_))),
        "a reaction was defined although its definition is invalid"
    );
}

/// spec A5: a workflow with a stream trigger gets each matching event of the streams once, like any
/// other event. It gets only events committed after the first such trigger was defined.
pub(crate) async fn a_stream_event_triggers_a_workflow(harness: &TestHarness) {
    append_quietly(harness, "orders-1", &[("paid", json!(1))]).await;
    let inputs = Marks::default();
    let noted = inputs.clone();
    let flow = Workflow::from_definition(
        json!({ "name": "pack", "triggers": [{ "stream": "pa*" }], "idempotency": { "key": "stream" } }),
        move |_: Ctx, input: Value| {
            noted.mark(input.to_string());
            async { Ok(()) }
        },
    );
    let engine = looking(harness).workflow(flow).start().await.unwrap();
    harness.settle().await;
    assert_eq!(inputs.all(), [""; 0], "events before the first trigger must start no run");
    append_quietly(harness, "orders-1", &[("paid", json!({ "sum": 7 })), ("sent", json!(2))]).await;
    append(harness, "orders-2", &[("parked", json!(3)), ("paid", json!(4))]).await;
    let rows = log(harness, "orders-1").await;
    let data: Vec<Value> =
        inputs.all().iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(data.len(), 2, "idempotency by stream must allow one run per stream");
    let first = data.iter().find(|data| data["stream"] == "orders-1").unwrap();
    let (id, at) = (json!(rows[1].id), json!(rows[1].at.rfc3339()));
    let expected = json!({ "stream": "orders-1", "version": 1, "position": 2, "name": "paid",
        "data": { "sum": 7 }, "id": id, "at": at });
    assert_eq!(*first, expected);
    let names = harness.store().dump().await.unwrap();
    let names = names.iter().filter_map(|row| match row {
        Row::Event(event) => Some(event.name.as_str()),
        _ => None,
    });
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["stream:paid", "stream:paid", "stream:parked"],
        "the event `sent` has no trigger and must not be posted"
    );
    assert_eq!(view(&engine, "$triggers", "orders-1").await.position, 2);
}
