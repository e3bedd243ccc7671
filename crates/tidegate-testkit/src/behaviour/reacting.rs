//! Effects of reaction handlers, which are committed with the ack; start positions of reactions;
//! and streams that operators defer or prioritize.

use serde_json::json;
use tidegate_core::{
    command::{Refusal, StreamAnswer, StreamCommand},
    reaction::{Effect, Effected, Leased, React, Reacted, Remedy, StreamSelection, Then},
};

use crate::world::{World, event, logged, request, streams_of};

async fn mail(world: &World) {
    world.react(json!({ "name": "mail", "source": "orders-*", "leaseMs": 1000 })).await;
}

fn append(stream: &str, name: &str) -> Effect {
    let events = vec![logged(name, &json!({ "of": name }))];
    Effect::Commit { stream: stream.to_owned(), events }
}

fn done(leased: &Leased, upto: i64, effects: Vec<Effect>) -> React {
    React { lease: leased.lease.clone(), from: leased.at, upto, effects, then: Then::Free }
}

async fn react(world: &World, react: React) -> Result<Reacted, Refusal> {
    match world.stream(StreamCommand::React(react)).await? {
        StreamAnswer::Reacted(reacted) => Ok(reacted),
        other => panic!("unexpected answer to a reaction report: {other:?}"),
    }
}

/// spec B192, B224: commits, events and calls of a handler are written with its ack, in order.
/// Commits are appended to their stream, whatever its head is.
pub async fn effects_are_kept_with_the_ack(world: &World) {
    mail(world).await;
    world.define(json!({ "name": "pack" })).await;
    world.define_flow(json!({ "name": "shop", "actions": [{ "name": "ship" }] })).await;
    world.append("orders-1", &["made", "paid"]).await;
    world.append("letters", &["old"]).await;
    let leased = world.claim_one("mail").await;
    let effects = vec![
        append("letters", "new"),
        Effect::Send(event("pack", &json!({ "order": 1 }))),
        Effect::Call(request("shop", "ship", None, None, &json!({}))),
        append("letters", "last"),
    ];
    let reacted = react(world, done(&leased, 1, effects)).await.unwrap();
    assert_eq!((reacted.at, reacted.until, reacted.already), (1, None, false));
    let [
        Effected::Committed(new),
        Effected::Posted(posted),
        Effected::Admitted(called),
        Effected::Committed(last),
    ] = &reacted.effects[..]
    else {
        panic!("{reacted:?}")
    };
    assert_eq!((new.first, last.first), (1, 2));
    assert_eq!((posted.runs.len(), called.workflow.as_str()), (1, "shop/ship"));
    assert_eq!(world.names("letters").await, ["old", "new", "last"]);
    assert_eq!((world.alive("pack").await, world.alive("shop/ship").await), (1, 1));
    let sub = world.sub("mail", "orders-1").await;
    assert_eq!((sub.at, sub.owner, sub.until), (1, None, None));
}

/// spec B214: if the lease is lost, no effect is written, and the worker gets an error.
pub async fn a_lost_lease_keeps_no_effect(world: &World) {
    mail(world).await;
    world.append("orders-1", &["made"]).await;
    let late = world.claim_one("mail").await;
    world.pass(1000);
    let answer = react(world, done(&late, 0, vec![append("letters", "a")])).await.unwrap_err();
    assert_eq!(answer.code(), "reaction_lease_lost");
    let two = world.engine(2);
    let leased = two.claim_one("mail").await;
    world.close("shut", None).await.unwrap();
    let answer = react(world, done(&late, 0, vec![append("shut", "a")])).await.unwrap_err();
    assert_eq!(
        answer.code(),
        "reaction_lease_lost",
        "a lost lease must be reported before a refused effect"
    );
    assert_eq!(world.head("letters").await, None);
    react(&two, done(&leased, 0, vec![append("letters", "b")])).await.unwrap();
    assert_eq!(world.names("letters").await, ["b"]);
}

/// If one effect is refused, all effects and the ack are refused; the worker keeps the lease.
pub async fn a_refused_effect_refuses_the_whole(world: &World) {
    mail(world).await;
    world.append("orders-1", &["made"]).await;
    world.close("shut", None).await.unwrap();
    let leased = world.claim_one("mail").await;
    let nobody = Effect::Call(request("shop", "ship", None, None, &json!({})));
    for (refused, code) in [
        (append("shut", "b"), "stream_closed"),
        (append("x", "$b"), "bad_name"),
        (nobody, "no_workflow"),
    ] {
        let effects = vec![append("letters", "a"), refused, append("letters", "c")];
        let reply = react(world, done(&leased, 0, effects)).await.unwrap_err();
        assert_eq!(reply.code(), code);
        assert_eq!(world.head("letters").await, None);
    }
    let beyond = react(world, done(&leased, 1, vec![append("letters", "a")])).await.unwrap_err();
    assert_eq!(beyond.code(), "ack_beyond_stream");
    assert_eq!(world.sub("mail", "orders-1").await.at, -1);
    react(world, done(&leased, 0, vec![append("letters", "a")])).await.unwrap();
}

/// spec B181: a worker that got no answer repeats its report, and no effect is applied twice. A
/// report that keeps the lease also renews it.
pub async fn a_repeated_report_changes_nothing(world: &World) {
    mail(world).await;
    world.append("orders-1", &["a", "b", "c"]).await;
    let leased = world.claim_one("mail").await;
    world.pass(600);
    let first = React { then: Then::Keep, ..done(&leased, 0, vec![append("orders-1", "of a")]) };
    let reacted = react(world, first.clone()).await.unwrap();
    assert_eq!((reacted.at, reacted.until), (0, Some(world.now().plus_ms(1000))));
    let again = react(world, first).await.unwrap();
    assert!(again.already && again.effects.is_empty(), "{again:?}");
    assert_eq!(world.names("orders-1").await, ["a", "b", "c", "of a"]);
    world.pass(600);
    let skipped = React { from: 1, ..done(&leased, 2, vec![append("letters", "x")]) };
    let answer = react(world, skipped).await.unwrap_err();
    assert_eq!(
        answer.code(),
        "reaction_lease_lost",
        "a report that starts after an unhandled event was accepted"
    );
    let last = React { from: 0, ..done(&leased, 2, Vec::new()) };
    assert_eq!(react(world, last).await.unwrap().at, 2);
    let rest = world.claim_one("mail").await;
    assert_eq!(
        world.delivered(&rest).await,
        ["of a"],
        "an effect on the own stream must be delivered as a new event"
    );
}

/// With `fromHead`, a reaction gets all events that are committed after its definition, and no
/// earlier ones.
pub async fn from_the_head_on_the_past_is_no_news(world: &World) {
    world.append("old", &["1", "2"]).await;
    world.append("shut", &["1"]).await;
    world.close("shut", None).await.unwrap();
    let options = json!({ "name": "now", "source": "*", "fromHead": true, "leaseMs": 1000 });
    world.react(options).await;
    world.follow("now", "old").await;
    assert_eq!(world.claim("now", 10).await, []);
    world.append("old", &["3", "4"]).await;
    world.append("new", &["1"]).await;
    let leased = world.claim("now", 10).await;
    assert_eq!(streams_of(&leased), ["new", "old"]);
    for leased in leased {
        let expected: &[&str] = if leased.at < 0 { &["1"] } else { &["3", "4"] };
        assert_eq!(world.delivered(&leased).await, expected, "{}", leased.lease.stream);
    }
    let done = world.truncate("shut", 10).await.unwrap();
    assert_eq!(
        done,
        tidegate_core::stream::Truncated::Done(1),
        "a reaction with `fromHead` must not block truncation"
    );
}

/// An event of a stream starts only workflows with a trigger for streams, by name or by prefix.
pub async fn a_stream_trigger_is_asked_for_by_name(world: &World) {
    mail(world).await;
    world.define(json!({ "name": "exact", "triggers": [{ "stream": "paid" }] })).await;
    world.define(json!({ "name": "begins", "triggers": "stream:pa*" })).await;
    world.define(json!({ "name": "other", "triggers": ["paid", "stream"] })).await;
    world.append("orders-1", &["paid"]).await;
    let leased = world.claim_one("mail").await;
    let trigger = |name: &str| Effect::Trigger(event(name, &json!({})));
    let effects = vec![trigger("stream:paid"), trigger("stream:parked"), trigger("stream:made")];
    let reacted = react(world, done(&leased, 0, effects)).await.unwrap();
    let runs = reacted.effects.iter().map(|effect| match effect {
        Effected::Posted(posted) => posted.runs.len(),
        Effected::Committed(_) | Effected::Admitted(_) => panic!("{effect:?}"),
        Effected::Skipped => 0,
    });
    assert_eq!(runs.collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(
        reacted.effects[2],
        Effected::Skipped,
        "an event that triggers no workflow was recorded"
    );
    assert_eq!((world.alive("begins").await, world.alive("other").await), (2, 0));
}

/// spec N67: streams that an operator defers are not claimed before their time; a leased stream is
/// not deferred.
pub async fn an_operator_puts_streams_off(world: &World) {
    mail(world).await;
    for stream in ["orders-1", "orders-2", "orders-3"] {
        world.append(stream, &["made"]).await;
    }
    let held = world.claim("mail", 1).await;
    assert_eq!(streams_of(&held), ["orders-1"]);
    let until = world.now().plus_ms(500);
    let both = StreamSelection::Names(vec!["orders-1".to_owned(), "orders-2".to_owned()]);
    let put_off = world.mend("mail", Remedy::Defer(until), both).await.unwrap();
    assert_eq!(put_off, ["orders-2"], "a leased stream was deferred");
    assert_eq!(streams_of(&world.claim("mail", 10).await), ["orders-3"]);
    let sub = world.sub("mail", "orders-2").await;
    assert_eq!((sub.failures, sub.claims, sub.error), (0, 0, None), "not a failure");
    world.pass(499);
    assert_eq!(world.claim("mail", 10).await, []);
    world.pass(1);
    assert_eq!(streams_of(&world.claim("mail", 10).await), ["orders-2"]);
}

/// spec N62: a stream that an operator prioritizes is claimed next, once; then it is claimed in
/// turn like the others.
pub async fn an_operator_puts_streams_first(world: &World) {
    mail(world).await;
    for stream in ["orders-1", "orders-2", "orders-3"] {
        world.append(stream, &["1", "2", "3"]).await;
        world.pass(1);
    }
    let third = || StreamSelection::Names(vec!["orders-3".to_owned()]);
    assert_eq!(world.mend("mail", Remedy::Prioritize, third()).await.unwrap(), ["orders-3"]);
    let leased = world.claim("mail", 1).await;
    assert_eq!(streams_of(&leased), ["orders-3"]);
    assert_eq!(world.mend("mail", Remedy::Prioritize, third()).await.unwrap(), [""; 0], "held");
    world.ack(&[(&leased[0], 0)]).await;
    for next in ["orders-1", "orders-2", "orders-3"] {
        assert_eq!(streams_of(&world.claim("mail", 1).await), [next]);
    }
}
