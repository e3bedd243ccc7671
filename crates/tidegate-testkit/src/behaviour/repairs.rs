//! Failing reactions: lost leases, backoff, the order of claims, and repairs of blocked streams by
//! operators.

use serde_json::json;
use tidegate_core::{
    reaction::{Failed, Filter, Leased, Outcome, Pattern, Remedy, StreamSelection},
    row::Row,
};

use crate::world::{World, streams_of};

async fn mail(world: &World) {
    world.react(json!({ "name": "mail", "source": "*", "leaseMs": 1000 })).await;
}

/// Commits two events to each stream, claims the streams, handles the first event, and blocks them
/// after it.
async fn blocked(world: &World, streams: &[&str]) {
    for stream in streams {
        world.append(stream, &["1", "2"]).await;
    }
    for leased in world.claim("mail", 100).await {
        assert_eq!(world.block(&leased, 0, "stuck").await, Outcome::Done(0));
    }
}

fn names(streams: &[&str]) -> StreamSelection {
    StreamSelection::Names(streams.iter().map(|stream| (*stream).to_owned()).collect())
}

fn matching(stream: &str) -> Filter {
    Filter { stream: Some(Pattern::parse(stream).unwrap()), ..Filter::default() }
}

/// spec B213, N68: claims without progress are counted separately from failures. Too many in a row
/// block the stream with that reason, even without `blockOnError`.
pub async fn leases_lost_too_often_block_the_stream(world: &World) {
    let options = json!({ "name": "slow", "source": "*", "leaseMs": 1000, "maxLostLeases": 3,
        "blockOnError": false, "maxRetries": 0 });
    world.react(options).await;
    world.append("a", &["1", "2"]).await;
    let lose = async |times: u32| {
        for _ in 0..times {
            world.claim_one("slow").await;
            world.pass(1000);
        }
    };
    lose(2).await;
    world.ack(&[(&world.claim_one("slow").await, 0)]).await;
    assert_eq!(world.sub("slow", "a").await.claims, 0, "progress must reset the count of claims");
    lose(2).await;
    world.fail_after(&world.claim_one("slow").await, 0).await;
    let sub = world.sub("slow", "a").await;
    assert_eq!(
        (sub.claims, sub.failures),
        (0, 1),
        "a reported failure must reset the count of claims"
    );
    lose(3).await;
    let claimed = world.claim_or_block("slow", 10).await;
    assert_eq!(claimed.leased, []);
    assert_eq!(claimed.blocked[0].stream, "a");
    let answer = &claimed.blocked[0].reason;
    let says = "claimed 3 times in a row without progress at version 1: the lease of 1000 ms";
    assert!(answer.starts_with(says), "{answer}");
    let sub = world.sub("slow", "a").await;
    assert_eq!((sub.failures, sub.blocked.as_ref()), (1, Some(answer)));
    let again = world.claim_or_block("slow", 10).await;
    assert_eq!((again.leased, again.blocked), (vec![], vec![]), "it is said once");
}

/// spec B216: no engine claims the stream again before the end of the backoff.
pub async fn a_backoff_is_waited_for(world: &World) {
    for (kind, waits) in [
        ("fixed", [100, 100, 100, 100]),
        ("linear", [100, 200, 300, 350]),
        ("exponential", [100, 200, 350, 350]),
    ] {
        let backoff = json!({ "type": kind, "ms": 100, "maxMs": 350, "jitter": false });
        let options = json!({ "name": kind, "source": kind, "maxRetries": 9, "backoff": backoff });
        world.react(options).await;
        world.append(kind, &["made"]).await;
        for (n, wait) in (1..).zip(waits) {
            let failed = world.fail_after(&world.claim_one(kind).await, -1).await;
            let due = Some(world.now().plus_ms(wait));
            assert_eq!(failed, Outcome::Done(Failed::Retry { at: -1, failures: n, due }));
            world.pass(wait - 1);
            assert_eq!(world.engine(2).claim(kind, 10).await, [], "{kind}: {n}");
            world.pass(1);
        }
        world.ack(&[(&world.claim_one(kind).await, 0)]).await;
    }
}

/// spec N67: a deferred stream is not claimed before its time; a deferral counts neither as a
/// failure nor as a lost lease.
pub async fn what_is_put_off_is_invisible_until_due(world: &World) {
    mail(world).await;
    world.append("a", &["1", "2"]).await;
    let leased = world.claim_one("mail").await;
    assert_eq!(world.defer(&leased, 0, 5000).await, Outcome::Done(0));
    let sub = world.sub("mail", "a").await;
    assert_eq!((sub.failures, sub.claims, sub.owner), (0, 0, None));
    world.append("a", &["3"]).await;
    world.pass(4999);
    for engine in [1, 2] {
        assert_eq!(world.engine(engine).claim("mail", 10).await, []);
    }
    world.pass(1);
    let leased = world.engine(2).claim_one("mail").await;
    assert_eq!(world.delivered(&leased).await, ["2", "3"]);
    assert_eq!(world.defer(&leased, 0, 0).await, Outcome::Done(0), "given back");
    assert_eq!(world.claim_one("mail").await.at, 0);
}

/// spec B217, N62: a stream with new events is claimed within ⌈n / limit⌉ claims, however many
/// events the others have.
pub async fn no_stream_with_work_starves(world: &World) {
    mail(world).await;
    let busy = ["a", "b", "c", "d"];
    for stream in busy {
        world.append(stream, &["e"]).await;
    }
    world.pass(1);
    world.append("z", &["e"]).await;
    for round in 1.. {
        assert!(round <= 3, "`z`, one of five streams, was not in the first three claims of two");
        let leased = world.claim("mail", 2).await;
        if streams_of(&leased).contains(&"z") {
            break;
        }
        let acks: Vec<(&Leased, i64)> = leased.iter().map(|leased| (leased, leased.want)).collect();
        world.ack(&acks).await;
        world.pass(1);
        for stream in busy {
            world.append(stream, &["more", "and more"]).await;
        }
    }
    // A subscription that is deferred without progress does not delay the others either.
    world.pass(1000);
    let mut turns = std::collections::BTreeMap::new();
    for _ in 0..10 {
        world.pass(1);
        let leased = world.claim("mail", 1).await.remove(0);
        world.defer(&leased, leased.at, 0).await;
        *turns.entry(leased.lease.stream).or_insert(0) += 1;
    }
    let twice = ["a", "b", "c", "d", "z"].map(|stream| (stream.to_owned(), 2));
    assert_eq!(turns.into_iter().collect::<Vec<_>>(), twice);
}

/// spec B217: after its turn, a stream is behind all others, whether its lease was lost or ended
/// with events left.
pub async fn who_had_a_turn_goes_to_the_back(world: &World) {
    mail(world).await;
    world.append("a", &["1", "2"]).await;
    world.pass(1);
    world.append("b", &["1"]).await;
    world.pass(1);
    assert_eq!(streams_of(&world.claim("mail", 1).await), ["a"]);
    world.pass(1000);
    let b = world.claim("mail", 1).await.remove(0);
    assert_eq!(b.lease.stream, "b", "`a` lost its lease and must be behind `b`");
    let a = world.claim_one("mail").await;
    world.pass(1);
    world.append("c", &["1"]).await;
    world.pass(1);
    assert_eq!(world.ack(&[(&a, 0)]).await, [Outcome::Done(0)]);
    assert_eq!(streams_of(&world.claim("mail", 1).await), ["c"], "`c` has waited longer than `a`");
    assert_eq!(streams_of(&world.claim("mail", 1).await), ["a"]);
}

/// spec B206–B208, N71: unblock continues after the last acknowledged event, and reset delivers all
/// events again. Both act on the named streams only; an empty list names none.
pub async fn unblock_goes_on_and_reset_replays(world: &World) {
    mail(world).await;
    blocked(world, &["a", "b", "c"]).await;
    assert_eq!(world.mend("mail", Remedy::Unblock, names(&[])).await.unwrap(), [""; 0]);
    assert_eq!(world.mend("mail", Remedy::Reset, names(&[])).await.unwrap(), [""; 0]);
    assert_eq!(world.claim("mail", 10).await, []);
    let unblocked = world.mend("mail", Remedy::Unblock, names(&["a", "nowhere", "a"])).await;
    assert_eq!(unblocked.unwrap(), ["a"]);
    let a = world.claim_one("mail").await;
    assert_eq!((&*a.lease.stream, world.delivered(&a).await), ("a", vec!["2".to_owned()]));
    assert_eq!(world.mend("mail", Remedy::Reset, names(&["b"])).await.unwrap(), ["b"]);
    let b = world.claim_one("mail").await;
    assert_eq!(world.delivered(&b).await, ["1", "2"]);
    let sub = world.sub("mail", "b").await;
    assert_eq!((sub.failures, sub.error, sub.blocked), (0, None, None));
    // A reset under a lease: acks of its holder are refused, and the events are delivered again
    // after the end of the lease.
    assert_eq!(world.mend("mail", Remedy::Unblock, names(&["a"])).await.unwrap(), [""; 0]);
    assert_eq!(world.mend("mail", Remedy::Reset, names(&["a"])).await.unwrap(), ["a"]);
    assert_eq!(world.ack(&[(&a, 1)]).await, [Outcome::Lost]);
    world.pass(1000);
    let again = world.claim("mail", 10).await;
    let a = again.iter().find(|leased| leased.lease.stream == "a").unwrap();
    assert_eq!(world.delivered(a).await, ["1", "2"]);
}

/// spec B209–B211, N70–N72: filters restrict the selection, page by page, and an empty filter
/// selects all streams. A reset of all streams has to be requested explicitly.
pub async fn filters_restrict_as_they_say(world: &World) {
    mail(world).await;
    let long = format!("order-{}", "x".repeat(150));
    let streams = ["order-1", "Order-2", "order-3", "pre-order-1", "zebra", &long];
    blocked(world, &streams).await;
    let source = |source: &str| Filter { source: Some(source.to_owned()), ..Filter::default() };
    let state = |blocked| Filter { blocked: Some(blocked), ..Filter::default() };
    let both = Filter { blocked: Some(true), ..matching("^order-1$") };
    let cases: [(Filter, Vec<&str>); 9] = [
        (matching("^order-"), vec!["order-1", "order-3", &long]),
        (matching("order-1"), vec!["order-1", "pre-order-1"]),
        (matching("-1$"), vec!["order-1", "pre-order-1"]),
        (matching("^Order"), vec!["Order-2"]),
        (source("order-*"), vec![]),
        (source("*"), vec!["Order-2", "order-1", "order-3", &long, "pre-order-1", "zebra"]),
        (both, vec!["order-1"]),
        (state(false), vec![]),
        (Filter::default(), vec!["Order-2", "order-1", "order-3", &long, "pre-order-1", "zebra"]),
    ];
    for (filter, meant) in cases {
        let done =
            world.mend("mail", Remedy::Unblock, StreamSelection::Where(filter.clone())).await;
        assert_eq!(done.unwrap(), meant, "{filter:?}");
        let leased = world.claim("mail", 100).await;
        assert_eq!(streams_of(&leased), meant, "{filter:?}: other streams were unblocked");
        for leased in leased {
            world.block(&leased, leased.at, "stuck").await;
        }
    }
    let all = world.mend("mail", Remedy::Reset, StreamSelection::Where(Filter::default())).await;
    assert_eq!(all.unwrap_err().code(), "reset_needs_all");
    assert_eq!(world.claim("mail", 10).await, [], "nothing was reset");
    assert_eq!(world.mend("mail", Remedy::Reset, StreamSelection::All).await.unwrap().len(), 6);
    assert_eq!(world.claim("mail", 100).await.len(), 6);
    for bad in ["order-*", "a|b", "[ab]", "a%", "", "^$", "a.*"] {
        let answer = Pattern::parse(bad).unwrap_err();
        assert_eq!(answer.code(), "bad_stream_filter", "{bad}");
    }
}

/// spec N69: each reaction has its own subscription, and so its own position and blocks.
pub async fn reactions_do_not_share_a_place(world: &World) {
    mail(world).await;
    world.react(json!({ "name": "bill", "source": "order-*" })).await;
    world.append("order-1", &["1"]).await;
    world.append("note-1", &["1"]).await;
    let mailed = world.claim("mail", 10).await;
    assert_eq!(streams_of(&mailed), ["note-1", "order-1"]);
    let billed = world.claim_one("bill").await;
    assert_eq!(
        billed.lease.stream, "order-1",
        "the reaction must get only streams that match its source"
    );
    world.block(&billed, -1, "stuck").await;
    world.ack(&[(&mailed[0], 0), (&mailed[1], 0)]).await;
    assert_eq!(world.sub("mail", "order-1").await.at, 0);
    assert_eq!(world.sub("bill", "order-1").await.at, -1);
    let mended = world.mend("mail", Remedy::Unblock, StreamSelection::All).await.unwrap();
    assert_eq!(mended, [""; 0], "the block of another reaction was removed");
    world.react(json!({ "name": "late", "source": "note-1" })).await;
    assert_eq!(
        world.claim("late", 10).await,
        [],
        "a new reaction got a stream before it follows it"
    );
    world.follow("late", "note-1").await;
    assert_eq!(world.delivered(&world.claim_one("late").await).await, ["1"]);
}

/// spec B222: a blocked stream can be inspected without a lease: position, failures, the reason of
/// the block, the holder and the end of its lease.
pub async fn a_stuck_stream_can_be_looked_at(world: &World) {
    mail(world).await;
    world.append("a", &["1", "2"]).await;
    world.fail_after(&world.claim_one("mail").await, 0).await;
    let leased = world.engine(7).claim_one("mail").await;
    let before = world.dump().await;
    let sub = world.sub("mail", "a").await;
    assert_eq!((sub.at, sub.want, sub.failures, sub.claims), (0, 1, 1, 1));
    assert_eq!((sub.holder(world.now()), sub.until), (Some(7), Some(leased.until)));
    assert_eq!((sub.error.as_deref(), sub.blocked), (Some("boom"), None));
    let listed = before.iter().filter(|row| matches!(row, Row::Subscription(_))).count();
    assert_eq!((listed, world.dump().await), (1, before), "the inspection changed a row");
    assert_eq!(world.ack(&[(&leased, 1)]).await, [Outcome::Done(1)]);
}
