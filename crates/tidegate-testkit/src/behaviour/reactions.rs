//! Reactions: leases of streams, delivery of events, blocked streams and their repair.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, StreamAnswer},
    reaction::{Failed, Outcome},
    stream::Expected,
};

use crate::world::{World, streams_of};

/// Defines a reaction to all streams, with leases of one second.
async fn mail(world: &World) {
    world.react(json!({ "name": "mail", "source": "*", "leaseMs": 1000 })).await;
}

/// Commits one event to each of three streams.
async fn three(world: &World) {
    for stream in ["a", "b", "c"] {
        world.append(stream, &["made"]).await;
    }
}

/// spec B194, B195, B197: a claim leases streams with new events, and no others, until the end of
/// the lease. If all streams are leased or done, the answer is an empty list.
pub async fn a_claim_leases_what_has_work(world: &World) {
    mail(world).await;
    assert_eq!(world.claim("mail", 10).await, []);
    three(world).await;
    let leased = world.claim("mail", 2).await;
    assert_eq!(
        streams_of(&leased),
        ["a", "b"],
        "expected the two streams that have waited longest"
    );
    for lease in &leased {
        assert_eq!((lease.at, lease.want), (-1, 0));
        assert_eq!(lease.until, world.now().plus_ms(1000));
        assert_eq!(world.delivered(lease).await, ["made"]);
    }
    world.ack(&[(&leased[0], 0)]).await;
    assert_eq!(
        streams_of(&world.claim("mail", 10).await),
        ["c"],
        "expected the one stream that is neither leased nor done"
    );
    assert_eq!(world.engine(2).claim("mail", 10).await, [], "a leased stream was claimed again");
    let unknown = world.stream(world.claiming("nobody", 1)).await.unwrap_err();
    assert_eq!(unknown.code(), "no_reaction");
    let tenant = world.in_workspace("b");
    mail(&tenant).await;
    assert_eq!(tenant.claim("mail", 10).await, [], "a stream of another tenant was claimed");
}

/// spec B196: concurrent claims of several engines are disjoint, in one transaction and in several.
pub async fn claims_of_several_engines_are_disjoint(world: &World) {
    mail(world).await;
    let two = world.engine(2);
    for n in 0..12 {
        world.append(&format!("s{n:02}"), &["made"]).await;
    }
    let claim = |engine: &World| Command::Stream {
        ws: world.ws.clone(),
        command: engine.claiming("mail", 3),
    };
    let answers = world.batch(vec![claim(world), claim(&two)]).await;
    let mut all = Vec::new();
    for answer in answers {
        let Ok(Answer::Stream(StreamAnswer::Claimed(claimed))) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(claimed.leased.len(), 3);
        all.extend(claimed.leased);
    }
    let (one, other) = tokio::join!(world.claim("mail", 3), two.claim("mail", 3));
    assert_eq!((one.len(), other.len()), (3, 3), "each of the two claims must get streams");
    all.extend(one);
    all.extend(other);
    let mut streams = streams_of(&all);
    streams.dedup();
    assert_eq!(streams.len(), 12, "a stream was claimed twice: {streams:?}");
}

/// spec B198, B199: a lease does not delay commits, and a commit does not delay claims; the new
/// events are delivered afterwards.
pub async fn leases_and_commits_do_not_meet(world: &World) {
    mail(world).await;
    three(world).await;
    let leased = world.claim("mail", 1).await.remove(0);
    let next = world.commit("a", &["more"], Some(Expected::Version(0)));
    assert_eq!(world.try_append(next).await.unwrap().last, 1);
    let two = world.engine(2);
    let (claimed, committed) = tokio::join!(two.claim("mail", 1), world.append("c", &["more"]));
    assert_eq!((claimed.len(), committed.last), (1, 1));
    assert_eq!(world.ack(&[(&leased, 0)]).await, [Outcome::Done(0)], "the commit ended the lease");
    let rest = world.claim("mail", 10).await;
    let again = rest.iter().find(|leased| leased.lease.stream == "a").unwrap();
    assert_eq!(world.delivered(again).await, ["more"]);
}

/// spec B200, B215: an ack moves the subscription to the last handled event, frees the lease and
/// resets the counters. Events are delivered in order, and unacknowledged ones again.
pub async fn an_ack_moves_the_place_and_frees_the_lease(world: &World) {
    mail(world).await;
    world.append("a", &["1", "2", "3"]).await;
    world.fail_after(&world.claim_one("mail").await, -1).await;
    let leased = world.claim_one("mail").await;
    assert_eq!(world.delivered(&leased).await, ["1", "2", "3"]);
    assert_eq!(world.ack(&[(&leased, 1)]).await, [Outcome::Done(1)]);
    let sub = world.sub("mail", "a").await;
    assert_eq!((sub.at, sub.owner, sub.until), (1, None, None));
    assert_eq!((sub.failures, sub.claims, sub.error), (0, 0, None));
    let rest = world.engine(2).claim_one("mail").await;
    assert_eq!(world.delivered(&rest).await, ["3"]);
    assert_eq!(world.ack(&[(&rest, 0)]).await, [Outcome::Done(1)], "never back");
    let rest = world.claim_one("mail").await;
    let beyond = world.try_ack(&[(&rest, 3)]).await.unwrap_err();
    assert_eq!(beyond.code(), "ack_beyond_stream");
    assert_eq!(
        world.ack(&[(&rest, 2)]).await,
        [Outcome::Done(2)],
        "the refused ack freed the lease"
    );
    assert_eq!(world.claim("mail", 10).await, []);
}

/// spec N64: an ack of several leases is refused as a whole if one position is invalid. Lost leases
/// are reported in the answer, and the other leases are acknowledged.
pub async fn an_ack_of_several_is_all_or_nothing(world: &World) {
    mail(world).await;
    three(world).await;
    let leased = world.claim("mail", 3).await;
    let acks = [(&leased[0], 0), (&leased[1], 7), (&leased[2], 0)];
    assert_eq!(world.try_ack(&acks).await.unwrap_err().code(), "ack_beyond_stream");
    for stream in ["a", "b", "c"] {
        assert_eq!(world.sub("mail", stream).await.at, -1, "{stream}");
    }
    world.ack(&[(&leased[1], -1)]).await;
    let other = world.engine(2).claim_one("mail").await;
    let acks = [(&leased[0], 0), (&leased[1], 0), (&leased[2], 0)];
    let done = [Outcome::Done(0), Outcome::Lost, Outcome::Done(0)];
    assert_eq!(
        world.ack(&acks).await,
        done,
        "only the second ack must be refused: its lease is lost"
    );
    assert_eq!(world.sub("mail", "b").await.at, -1);
    assert_eq!(world.ack(&[(&other, 0)]).await, [Outcome::Done(0)]);
}

/// spec B201: a failure keeps the progress before it, is counted once, and frees the lease; the
/// other events are delivered again under a new lease.
pub async fn a_failure_keeps_what_was_handled(world: &World) {
    mail(world).await;
    world.append("a", &["1", "2", "3"]).await;
    let first = world.claim_one("mail").await;
    let failed = world.fail_after(&first, 0).await;
    assert_eq!(failed, Outcome::Done(Failed::Retry { at: 0, failures: 1, due: None }));
    let sub = world.sub("mail", "a").await;
    assert_eq!((sub.at, sub.owner, sub.failures), (0, None, 1));
    assert_eq!(sub.error.as_deref(), Some("boom"));
    let second = world.engine(2).claim_one("mail").await;
    assert!(second.lease.fence > first.lease.fence);
    assert_eq!(world.delivered(&second).await, ["2", "3"]);
    let failed = world.fail_after(&second, 0).await;
    assert_eq!(failed, Outcome::Done(Failed::Retry { at: 0, failures: 2, due: None }));
    let third = world.claim_one("mail").await;
    let failed = world.fail_after(&third, 1).await;
    assert_eq!(failed, Outcome::Done(Failed::Retry { at: 1, failures: 1, due: None }), "progress");
    assert_eq!(
        world.fail_after(&third, 2).await,
        Outcome::Lost,
        "a second failure under the same lease was accepted"
    );
    assert_eq!(world.sub("mail", "a").await.at, 1);
}

/// spec B202–B204: with n retries there are n + 1 attempts, then the stream is blocked. It is
/// blocked at once if the error is not retryable, and never without `blockOnError`.
pub async fn a_stream_is_blocked_when_its_retries_are_used_up(world: &World) {
    // (blockOnError, retryable, the attempt that blocks it)
    for (n, (block, retryable, blocks_at)) in
        [(true, true, Some(3)), (true, false, Some(1)), (false, true, None), (false, false, None)]
            .into_iter()
            .enumerate()
    {
        let (name, stream) = (format!("r{n}"), format!("s{n}"));
        let options = json!({ "name": name, "source": stream, "maxRetries": 2,
            "blockOnError": block });
        world.react(options).await;
        world.append(&stream, &["made"]).await;
        for attempt in 1..=20 {
            let leased = world.claim_one(&name).await;
            let failed = world.fail_with(&leased, -1, retryable).await;
            let Outcome::Done(failed) = failed else {
                panic!("{name}: the lease was lost: {failed:?}")
            };
            let blocked = matches!(failed, Failed::Blocked { at: -1, .. });
            assert_eq!(blocked, Some(attempt) == blocks_at, "{name}, {attempt}: {failed:?}");
            if blocked {
                break;
            }
        }
        let sub = world.sub(&name, &stream).await;
        assert_eq!(sub.blocked.is_some(), blocks_at.is_some(), "{name}");
        assert_eq!(i64::from(sub.failures), blocks_at.map_or(20, i64::from), "{name}");
    }
    let answer = world.sub("r0", "s0").await.blocked.unwrap();
    assert_eq!(answer, "failed 3 times, maxRetries is 2: boom");
    let answer = world.sub("r1", "s1").await.blocked.unwrap();
    assert_eq!(answer, "failed with an error that is not retryable: boom");
}

/// spec B205, N65, N66: the holder of a lease can block its stream after the events that it has
/// handled; other workers cannot. A blocked stream is never claimed, however much time passes and
/// whatever is committed.
pub async fn a_blocked_stream_is_never_claimed(world: &World) {
    mail(world).await;
    world.append("a", &["1", "2"]).await;
    let leased = world.claim_one("mail").await;
    let mut stranger = leased.clone();
    stranger.lease.engine = 9;
    assert_eq!(
        world.block(&stranger, 0, "no").await,
        Outcome::Lost,
        "a worker without the lease blocked the stream"
    );
    assert_eq!(world.sub("mail", "a").await.blocked, None);
    assert_eq!(world.block(&leased, 0, "poison").await, Outcome::Done(0));
    assert_eq!(world.block(&leased, 1, "again").await, Outcome::Lost);
    assert_eq!(world.ack(&[(&leased, 1)]).await, [Outcome::Lost]);
    let sub = world.sub("mail", "a").await;
    assert_eq!((sub.at, sub.blocked.as_deref()), (0, Some("poison")));
    for _ in 0..5 {
        world.pass(1_000_000);
        world.append("a", &["more"]).await;
        assert_eq!(world.claim("mail", 10).await, []);
    }
    assert_eq!(
        world.sub("mail", "a").await.want,
        6,
        "the subscription must count the new events of a blocked stream"
    );
}

/// spec B212–B214: a lease ends at its time, and then any engine may claim the stream. This does
/// not count as a failure. Reports of the old holder have no effect, even if no other engine has
/// claimed the stream.
pub async fn what_comes_after_the_lease_has_no_effect(world: &World) {
    mail(world).await;
    world.append("a", &["1", "2"]).await;
    let old = world.claim_one("mail").await;
    world.pass(999);
    let two = world.engine(2);
    assert_eq!(two.claim("mail", 10).await, []);
    world.pass(1);
    assert_eq!(world.ack(&[(&old, 1)]).await, [Outcome::Lost], "its time is up");
    assert!(!world.renew(&old).await);
    let new = two.claim_one("mail").await;
    let sub = world.sub("mail", "a").await;
    assert_eq!((sub.failures, sub.claims, sub.at), (0, 2, -1));
    assert_eq!(world.ack(&[(&old, 0)]).await, [Outcome::Lost]);
    assert_eq!(world.fail_after(&old, 0).await, Outcome::Lost);
    assert_eq!(world.block(&old, 0, "late").await, Outcome::Lost);
    assert_eq!(world.defer(&old, 0, 1000).await, Outcome::Lost);
    assert_eq!(
        world.sub("mail", "a").await,
        sub,
        "a report after the end of the lease changed the subscription"
    );
    assert_eq!(world.ack(&[(&new, 1)]).await, [Outcome::Done(1)]);
    assert_eq!(world.ack(&[(&old, 0)]).await, [Outcome::Lost]);
    assert_eq!(world.sub("mail", "a").await.at, 1, "never back");
    // Reports under an earlier lease of the same engine have no effect either.
    world.append("a", &["3"]).await;
    let first = world.claim_one("mail").await;
    world.pass(1000);
    let second = world.claim_one("mail").await;
    assert_eq!(world.ack(&[(&first, 2)]).await, [Outcome::Lost]);
    assert_eq!(world.ack(&[(&second, 2)]).await, [Outcome::Done(2)]);
}

/// spec B194, N68: a lease that is renewed in time is kept.
pub async fn a_renewed_lease_is_kept(world: &World) {
    mail(world).await;
    world.append("a", &["1"]).await;
    let leased = world.claim_one("mail").await;
    for _ in 0..5 {
        world.pass(900);
        assert!(world.renew(&leased).await);
        assert_eq!(world.engine(2).claim("mail", 10).await, []);
    }
    assert_eq!(world.ack(&[(&leased, 0)]).await, [Outcome::Done(0)]);
    assert!(!world.renew(&leased).await, "it has ended");
}
