//! Streams: ordered, versioned lists of events, which can be closed and truncated.

use serde_json::json;
use tidegate_core::{
    command::{Answer, Command, Refusal, StreamAnswer, StreamCommand},
    json::Payload,
    reaction::{Outcome, Remedy, StreamSelection},
    stream::{
        Behind, ClosePhase, Closed, Commit, Committed, Expected, MAX_COMMIT_EVENTS, StreamRefusal,
        Truncated,
    },
};

use crate::world::{World, logged};

/// Returns the answers of commits in one transaction.
async fn together(world: &World, commits: Vec<Commit>) -> Vec<Result<Committed, Refusal>> {
    let command =
        |commit| Command::Stream { ws: world.ws.clone(), command: StreamCommand::Commit(commit) };
    let answers = world.batch(commits.into_iter().map(command).collect()).await;
    let committed = |answer| match answer {
        Ok(Answer::Stream(StreamAnswer::Committed(committed))) => Ok(committed),
        Err(refusal) => Err(refusal),
        other => panic!("unexpected answer to a commit: {other:?}"),
    };
    answers.into_iter().map(committed).collect()
}

fn conflict(expected: Expected, actual: i64) -> StreamRefusal {
    StreamRefusal::Conflict { stream: "order".to_owned(), expected, actual }
}

/// spec B183, B184, B189: versions begin at 0 and have no gap. A commit with the right expected
/// version, or with none, appends to the end; the answer has the versions of its events.
pub async fn versions_begin_at_0_and_have_no_gap(world: &World) {
    let first = world.commit("order", &["placed", "paid"], Some(Expected::NoStream));
    let first = world.try_append(first).await.unwrap();
    assert_eq!((first.first, first.last), (0, 1));
    let second = world.commit("order", &["packed"], Some(Expected::Version(1)));
    let second = world.try_append(second).await.unwrap();
    assert_eq!((second.first, second.last), (2, 2));
    let third = world.append("order", &["sent", "received"]).await;
    assert_eq!((third.first, third.last), (3, 4));
    let log = world.log("order").await;
    assert_eq!(log.iter().map(|event| event.version).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(world.names("order").await, ["placed", "paid", "packed", "sent", "received"]);
    let ids = [first.ids, second.ids, third.ids].concat();
    assert_eq!(log.iter().map(|event| event.id).collect::<Vec<_>>(), ids);
    assert_eq!(
        world.append("other", &["placed"]).await.first,
        0,
        "versions of two streams must be independent"
    );
    assert_eq!(world.in_workspace("b").append("order", &["placed"]).await.first, 0);
}

/// spec B185, B190: a commit with a wrong expected version gets the actual version, and writes
/// nothing.
pub async fn a_wrong_expectation_writes_nothing(world: &World) {
    let wrong = async |expected, actual| {
        let before = world.dump().await;
        let refused = world.try_append(world.commit("order", &["a", "b"], Some(expected))).await;
        assert_eq!(refused, Err(conflict(expected, actual)));
        assert_eq!(world.dump().await, before, "the refused commit changed a row");
    };
    wrong(Expected::Version(0), -1).await;
    world.append("order", &["placed", "paid"]).await;
    for expected in [Expected::NoStream, Expected::Version(0), Expected::Version(2)] {
        wrong(expected, 1).await;
    }
    let answer = conflict(Expected::Version(0), 1).to_string();
    assert_eq!(answer, "stream `order`: expected version 0, got version 1");
}

/// spec B186–B188: exactly one of two commits with the same expected version succeeds, in one
/// transaction and in two concurrent ones. The other one reads again and retries, and no event is
/// lost.
pub async fn of_two_with_one_expectation_one_succeeds(world: &World) {
    let at_start = |name| world.commit("order", &[name], Some(Expected::NoStream));
    let answers = together(world, vec![at_start("a"), at_start("b")]).await;
    assert_eq!(answers[0].as_ref().unwrap().last, 0);
    assert_eq!(answers[1], Err(conflict(Expected::NoStream, 0).into()));
    assert_eq!(world.names("order").await, ["a"]);

    for n in 0..8 {
        let next = Some(Expected::Version(n));
        let other = world.engine(2);
        let (one, two) = tokio::join!(
            world.try_append(world.commit("order", &["one"], next)),
            other.try_append(other.commit("order", &["two"], next)),
        );
        let lost = [&one, &two].into_iter().find_map(|answer| answer.as_ref().err());
        assert!(one.is_ok() != two.is_ok(), "exactly one must succeed: {one:?}, {two:?}");
        assert_eq!(lost, Some(&conflict(Expected::Version(n), n + 1)));
    }
    let head = world.head("order").await.unwrap().head;
    let again = world.commit("order", &["again"], Some(Expected::Version(head)));
    assert_eq!(world.try_append(again).await.unwrap().last, head + 1);
    assert_eq!(world.log("order").await.len(), 10);
}

/// spec B187: exactly one of two first commits of a stream succeeds: they conflict on the row of
/// the stream.
pub async fn two_first_commits_collide_as_any_others(world: &World) {
    for n in 0..8 {
        let (stream, other) = (format!("order-{n}"), world.engine(2));
        let first = |world: &World| world.commit(&stream, &["placed"], Some(Expected::NoStream));
        let (one, two) =
            tokio::join!(world.try_append(first(world)), other.try_append(first(&other)));
        assert!(one.is_ok() != two.is_ok(), "exactly one must succeed: {one:?}, {two:?}");
        let (expected, actual) = (Expected::NoStream, 0);
        let lost = one.err().or(two.err()).unwrap();
        assert_eq!(lost, StreamRefusal::Conflict { stream: stream.clone(), expected, actual });
        assert_eq!(world.names(&stream).await, ["placed"]);
    }
}

/// spec B190: if one event is invalid, its whole commit is refused; other commits in the
/// transaction are not affected.
pub async fn a_commit_is_written_whole_or_not_at_all(world: &World) {
    let mut large = world.commit("order", &["fine"], None);
    large.events.push(logged("large", &json!("x".repeat(1024 * 1024))));
    let many = vec!["e"; MAX_COMMIT_EVENTS + 1];
    let bad = [
        (world.commit("order", &["fine", "$closed"], None), "bad_name"),
        (world.commit("order", &["fine", ""], None), "bad_name"),
        (world.commit("order", &["fine", "a\u{0}b"], None), "bad_name"),
        (world.commit("", &["fine"], None), "bad_name"),
        (world.commit(&"x".repeat(257), &["fine"], None), "bad_name"),
        (world.commit("order", &[], None), "commit_count"),
        (world.commit("order", &many, None), "commit_count"),
        (large, "commit_too_large"),
    ];
    for (commit, code) in bad {
        let (before, after) =
            (world.commit("good", &["a"], None), world.commit("good", &["b"], None));
        let answers = together(world, vec![before, commit, after]).await;
        assert_eq!(answers[1].as_ref().unwrap_err().code(), code);
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{code}: {answers:?}");
        assert_eq!(world.head("order").await, None, "{code}");
    }
    let positions: Vec<i64> = world.feed(0).await.iter().map(|event| event.pos).collect();
    assert_eq!(positions, (1..=16).collect::<Vec<_>>(), "a refused commit took a position");
}

/// spec B193: a committed event never changes, byte for byte.
pub async fn what_is_committed_never_changes(world: &World) {
    let text = r#"{"b": 1.0, "a" :[ 1e2,"\u00e9" ]}"#;
    let mut commit = world.commit("order", &["placed"], None);
    commit.events[0].data = Payload::parse(text.as_bytes(), usize::MAX).unwrap();
    commit.events[0].meta = Payload::parse(br#"{"correlation" : 7}"#, usize::MAX).unwrap();
    world.try_append(commit).await.unwrap();
    let first = world.log("order").await;
    assert_eq!(first[0].data.as_str(), text);
    assert_eq!(first[0].meta.as_str(), r#"{"correlation" : 7}"#);
    assert_eq!(first[0].at, world.now());
    world.react(json!({ "name": "mail", "source": "order" })).await;
    for n in 0..5 {
        world.pass(1000);
        world.append("order", &["more"]).await;
        let leased = world.claim_one("mail").await;
        world.ack(&[(&leased, n)]).await;
        world.try_append(world.commit("order", &["no"], Some(Expected::Version(0)))).await.ok();
    }
    assert_eq!(world.log("order").await[..1], first);
}

/// spec B223: streams do not deduplicate: an event that is committed twice is stored twice.
pub async fn the_log_deduplicates_nothing(world: &World) {
    let mut commit = world.commit("order", &["paid"], None);
    commit.events[0].meta = Payload::from_value(&json!({ "correlation": "c-1" }));
    let one = world.try_append(commit.clone()).await.unwrap();
    let two = world.try_append(commit).await.unwrap();
    assert_eq!((one.last, two.last), (0, 1));
    let log = world.log("order").await;
    assert_eq!((&log[0].data, &log[0].meta), (&log[1].data, &log[1].meta));
    assert_ne!(log[0].id, log[1].id);
}

/// spec N73: positions are assigned in the order in which they become visible, over all streams of
/// a workspace. A reader that continues after its last position misses no event.
pub async fn no_reader_of_the_feed_skips_a_late_commit(world: &World) {
    let (two, three) = (world.engine(2), world.engine(3));
    let mut seen: Vec<i64> = Vec::new();
    for n in 0..10 {
        let one = format!("one-{n}");
        let read = async || world.feed(seen.last().copied().unwrap_or(0)).await;
        let (_, _, _, news) = tokio::join!(
            world.append(&one, &["a", "b"]),
            two.append("two", &["c"]),
            three.append("three", &["d", "e", "f"]),
            read(),
        );
        seen.extend(news.iter().map(|event| event.pos));
    }
    let rest = world.feed(seen.last().copied().unwrap_or(0)).await;
    seen.extend(rest.iter().map(|event| event.pos));
    assert_eq!(seen, (1..=60).collect::<Vec<_>>(), "each event must be read once, in order");
    let last = world.append("one-0", &["x", "y"]).await;
    assert_eq!(last.positions, 61..=62, "events of one commit must have adjacent positions");
    let tenant = world.in_workspace("b");
    assert_eq!(
        tenant.append("one-0", &["x"]).await.positions,
        1..=1,
        "each workspace must have its own positions"
    );
    assert_eq!(tenant.feed(0).await.len(), 1);
}

/// spec B218, B219, N74: closing a stream writes a guard event at the expected version. No event is
/// committed after it, and closing again has no effect.
pub async fn behind_the_guard_nothing_is_committed(world: &World) {
    world.append("order", &["placed"]).await;
    let early = world.close("order", Some(Expected::NoStream)).await;
    assert_eq!(
        early,
        Err(conflict(Expected::NoStream, 0).into()),
        "the close ignored a commit in between"
    );
    assert_eq!(world.close_phase("order").await, ClosePhase::Open);
    let closed = world.close("order", Some(Expected::Version(0))).await;
    assert_eq!(closed, Ok(Closed { guard: 1, already: false }));
    for expected in [None, Some(Expected::Version(1)), Some(Expected::Version(0))] {
        let refused = world.try_append(world.commit("order", &["late"], expected)).await;
        let answer = StreamRefusal::StreamClosed { stream: "order".to_owned(), guard: 1 };
        assert_eq!(refused, Err(answer));
    }
    let before = world.dump().await;
    let again = world.close("order", Some(Expected::Version(0))).await;
    assert_eq!(again, Ok(Closed { guard: 1, already: true }));
    assert_eq!(world.dump().await, before);
    assert_eq!(world.names("order").await, ["placed", "$closed"]);
    let commit = world.commit("race", &["a"], Some(Expected::NoStream));
    let other = world.engine(2);
    let (wrote, closed) =
        tokio::join!(world.try_append(commit), other.close("race", Some(Expected::NoStream)));
    assert!(wrote.is_ok() != closed.is_ok(), "exactly one must succeed: {wrote:?}, {closed:?}");
}

/// spec B218, N74: the events of a closed stream are deleted only when every reaction has passed
/// the guard and no lease is held.
pub async fn a_truncation_waits_for_reactions_and_leases(world: &World) {
    for name in ["mail", "bill"] {
        world.react(json!({ "name": name, "source": "order", "leaseMs": 1000 })).await;
    }
    world.append("order", &["placed", "paid"]).await;
    let open = world.truncate("order", 10).await.unwrap_err();
    assert_eq!(open.code(), "stream_not_closed");
    let mail = world.claim_one("mail").await;
    world.close("order", None).await.unwrap();
    let waits = async || match world.truncate("order", 10).await {
        Ok(Truncated::Waits(behind)) => behind,
        other => panic!("the truncation does not wait: {other:?}"),
    };
    let lease = Some((world.engine, mail.until));
    let bill = Behind { reaction: "bill".into(), at: -1, blocked: None, lease: None };
    let by_mail = Behind { reaction: "mail".into(), at: -1, blocked: None, lease };
    assert_eq!(waits().await, [bill.clone(), by_mail]);
    let acked = world.ack(&[(&mail, 1)]).await;
    assert_eq!(acked, [Outcome::Done(1)]);
    assert_eq!(
        waits().await.len(),
        2,
        "a reaction that has not passed the guard must be waited for"
    );
    world.ack(&[(&world.claim_one("mail").await, 2)]).await;
    assert_eq!(waits().await, [bill]);
    let bill = world.claim_one("bill").await;
    world.block(&bill, 0, "broken").await;
    assert_eq!(waits().await[0].blocked.as_deref(), Some("broken"));
    let names = StreamSelection::Names(vec!["order".to_owned()]);
    world.mend("bill", Remedy::Unblock, names).await.unwrap();
    let bill = world.claim_one("bill").await;
    world.ack(&[(&bill, 2)]).await;
    assert_eq!(world.close_phase("order").await, ClosePhase::Settled);
    assert_eq!(world.names("order").await.len(), 3, "an event was deleted too early");
    assert_eq!(world.truncate("order", 10).await, Ok(Truncated::Done(2)));
}

/// spec B218, N74: deletion is in chunks, oldest first, and can be resumed after each. It waits for
/// reactions that are defined or reset meanwhile. The guard is kept.
pub async fn a_truncation_goes_in_chunks_and_can_be_taken_up_again(world: &World) {
    world.append("order", &["a", "b", "c", "d", "e"]).await;
    world.close("order", None).await.unwrap();
    assert_eq!(world.close_phase("order").await, ClosePhase::Settled);
    assert_eq!(world.truncate("order", 2).await, Ok(Truncated::Partly(2)));
    assert_eq!(world.names("order").await, ["c", "d", "e", "$closed"]);
    assert_eq!(world.close_phase("order").await, ClosePhase::Truncating);
    world.react(json!({ "name": "mail", "source": "*" })).await;
    assert!(matches!(world.truncate("order", 2).await, Ok(Truncated::Waits(_))));
    let leased = world.claim_one("mail").await;
    assert_eq!(world.delivered(&leased).await, ["c", "d", "e", "$closed"]);
    world.ack(&[(&leased, 5)]).await;
    assert_eq!(world.truncate("order", 2).await, Ok(Truncated::Partly(2)));
    assert_eq!(world.truncate("order", 2).await, Ok(Truncated::Done(1)));
    assert_eq!(world.close_phase("order").await, ClosePhase::Truncated);
    assert_eq!(
        world.truncate("order", 2).await,
        Ok(Truncated::Done(0)),
        "a repeated truncation must have no effect"
    );
    assert_eq!(world.names("order").await, ["$closed"]);
    let refused = world.try_append(world.commit("order", &["late"], None)).await;
    assert_eq!(refused.unwrap_err().code(), "stream_closed");
}

/// spec N74: a truncated stream starts again at version 0, with a snapshot. Reactions that have
/// seen the events before do not get the snapshot.
pub async fn a_restarted_stream_begins_at_0_with_a_snapshot(world: &World) {
    world.react(json!({ "name": "mail", "source": "order" })).await;
    world.append("order", &["a", "b"]).await;
    let early = world.restart("order", &json!(2)).await.unwrap_err();
    assert_eq!(early.code(), "stream_not_closed");
    world.close("order", None).await.unwrap();
    let early = world.restart("order", &json!(2)).await.unwrap_err();
    assert_eq!(early.code(), "stream_not_truncated");
    world.ack(&[(&world.claim_one("mail").await, 2)]).await;
    world.truncate("order", 10).await.unwrap();
    let restarted = world.restart("order", &json!({ "sum": 2 })).await.unwrap();
    assert_eq!((restarted.first, restarted.last), (0, 0));
    assert_eq!(world.names("order").await, ["$snapshot"]);
    assert_eq!(world.log("order").await[0].data.as_str(), r#"{"sum":2}"#);
    assert_eq!(
        world.claim("mail", 10).await,
        [],
        "the snapshot was delivered to a reaction that has seen its events"
    );
    let next = world.commit("order", &["c"], Some(Expected::Version(0)));
    assert_eq!(world.try_append(next).await.unwrap().last, 1);
    let leased = world.claim_one("mail").await;
    assert_eq!(world.delivered(&leased).await, ["c"]);
    world.react(json!({ "name": "late", "source": "order" })).await;
    world.follow("late", "order").await;
    let late = world.claim_one("late").await;
    assert_eq!(world.delivered(&late).await, ["$snapshot", "c"]);
}
