//! Tests of commits and closing: spec B183–B193, B198, B218, B219, B223, N69–N74.

use super::*;
use crate::{
    reaction::{Ack, Leased, Reaction, Source, ack, claim, reset},
    testing::{World, ws},
};

const ENGINE: u128 = 1;

fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes(), 1 << 20).unwrap()
}

fn event(name: &str) -> NewLogged {
    NewLogged { name: name.to_owned(), data: payload("{}"), meta: payload("{}") }
}

fn to(stream: &str, names: &[&str], expected: Option<Expected>) -> Commit {
    let events = names.iter().map(|name| event(name)).collect();
    Commit { ws: ws(), stream: stream.to_owned(), events, expected }
}

fn run(world: &mut World, command: &Commit) -> Result<Committed, StreamRefusal> {
    world.decide(|draft| commit(draft, command, &[]))
}

fn mail() -> Reaction {
    Reaction::new("mail", Source::Family("orders-".to_owned()))
}

fn followers() -> Vec<Follower> {
    vec![Follower::from(&mail())]
}

/// Claims one stream and acks all its events.
#[track_caller]
fn work_off(world: &mut World) {
    let leased = lease(world);
    let acks = [Ack { upto: leased.want, lease: leased.lease }];
    world.decide(|draft| ack(draft, &acks)).unwrap();
}

#[track_caller]
fn lease(world: &mut World) -> Leased {
    let claimed = world.decide::<_, ()>(|draft| claim(draft, &ws(), &mail(), ENGINE, 1)).unwrap();
    claimed.leased.into_iter().next().expect("there is work")
}

fn guard(world: &mut World, stream: &str, expected: i64) -> Result<Closed, StreamRefusal> {
    let expected = Some(Expected::after(expected));
    let command = Close { ws: ws(), stream: stream.to_owned(), expected, meta: Payload::null() };
    world.decide(|draft| close(draft, &command, &followers()))
}

fn phase(world: &mut World, stream: &str) -> ClosePhase {
    world.decide::<_, ()>(|draft| close_phase(draft, &ws(), stream, &followers())).unwrap()
}

fn cut(world: &mut World, stream: &str, limit: u32) -> Result<Truncated, StreamRefusal> {
    world.decide(|draft| truncate(draft, &ws(), stream, &followers(), limit))
}

fn begin_again(world: &mut World, stream: &str) -> Result<Committed, StreamRefusal> {
    let (stream, snapshot) = (stream.to_owned(), payload(r#"{"total":7}"#));
    let command = Restart { ws: ws(), stream, snapshot, meta: Payload::null() };
    world.decide(|draft| restart(draft, &command, &followers()))
}

/// spec B183, B184, B189, B193
#[test]
fn versions_begin_at_0_and_have_no_gap() {
    let mut world = World::at_ms(5);
    let first = run(&mut world, &to("a", &["x", "y"], Some(Expected::NoStream))).unwrap();
    assert_eq!((first.first, first.last), (0, 1));
    let second = run(&mut world, &to("a", &["z"], Some(Expected::Version(1)))).unwrap();
    assert_eq!((second.first, second.last), (2, 2));
    let third = run(&mut world, &to("a", &["z"], None)).unwrap();
    assert_eq!((third.first, third.last), (3, 3));

    let log: Vec<_> = world.log("a").iter().map(|it| (it.version, it.name.as_str())).collect();
    assert_eq!(log, [(0, "x"), (1, "y"), (2, "z"), (3, "z")]);
    let ids: Vec<_> = world.log("a").iter().map(|it| it.id).collect();
    assert_eq!(ids, [first.ids, second.ids, third.ids].concat());
}

/// spec B185, B190
#[test]
fn a_wrong_expectation_names_both_versions_and_writes_nothing() {
    let mut world = World::at_ms(5);
    run(&mut world, &to("a", &["x", "y"], None)).unwrap();
    let before = world.rows.clone();
    let cases = [
        ("a", Expected::NoStream, 1, "stream `a`: expected no stream, got version 1"),
        ("a", Expected::Version(0), 1, "stream `a`: expected version 0, got version 1"),
        ("b", Expected::Version(0), -1, "stream `b`: expected version 0, got no stream"),
    ];
    for (stream, expected, actual, text) in cases {
        let refusal = run(&mut world, &to(stream, &["x", "y"], Some(expected))).unwrap_err();
        assert_eq!(refusal.to_string(), text);
        let stream = stream.to_owned();
        assert_eq!(refusal, StreamRefusal::Conflict { stream, expected, actual });
    }
    assert_eq!(world.rows, before);
}

/// spec B186, B187, B188
#[test]
fn of_two_commits_in_one_transaction_the_second_sees_the_conflict_and_may_retry() {
    let mut world = World::at_ms(5);
    let both = |draft: &mut Draft| {
        let first = commit(draft, &to("a", &["x"], Some(Expected::NoStream)), &[])?;
        let second = draft
            .keep_or_undo(|draft| commit(draft, &to("a", &["y"], Some(Expected::NoStream)), &[]));
        assert!(matches!(second, Err(Stop::Refused(StreamRefusal::Conflict { actual: 0, .. }))));
        let retried = commit(draft, &to("a", &["y"], Some(Expected::Version(0))), &[])?;
        Ok::<_, Stop<StreamRefusal>>((first.last, retried.last))
    };
    assert_eq!(world.decide(both), Ok((0, 1)));
    assert_eq!(world.log("a").len(), 2);
}

/// spec N73
#[test]
fn positions_count_over_all_streams_of_a_workspace() {
    let mut world = World::at_ms(5);
    assert_eq!(run(&mut world, &to("a", &["x", "x"], None)).unwrap().positions, 1..=2);
    assert_eq!(run(&mut world, &to("b", &["x"], None)).unwrap().positions, 3..=3);
    assert_eq!(run(&mut world, &to("a", &["x"], None)).unwrap().positions, 4..=4);
    let other = Commit { ws: "other".into(), ..to("a", &["x"], None) };
    assert_eq!(run(&mut world, &other).unwrap().positions, 1..=1);
}

/// spec B223, B224
#[test]
fn the_log_deduplicates_nothing() {
    let mut world = World::at_ms(5);
    let mut commit = to("a", &["x"], None);
    commit.events[0].meta = payload(r#"{"correlation":"c1"}"#);
    assert_eq!(run(&mut world, &commit).unwrap().last, 0);
    assert_eq!(run(&mut world, &commit).unwrap().last, 1);
}

/// spec N70
#[test]
fn names_and_sizes_have_limits_that_errors_name() {
    let mut large = to("a", &["x"], None);
    large.events[0].data = Payload::from_value(&"y".repeat(512 * 1024).into());
    let mut heavy = to("a", &["x"; 9], None);
    for event in &mut heavy.events {
        event.data = Payload::from_value(&"y".repeat(500 * 1024).into());
    }
    let long = "n".repeat(257);
    let cases = [
        (to("", &["x"], None), "stream ``: must have 1 to 256 characters, got 0"),
        (to(&long, &["x"], None), "must have 1 to 256 characters, got 257"),
        (to("a\0b", &["x"], None), "stream `a\\0b`: must have no control characters, got '\\0'"),
        (to("a", &[""], None), "event ``: must have 1 to 256 characters, got 0"),
        (to("a", &["$closed"], None), "event `$closed`: names that begin with $ are reserved"),
        (to("a", &[], None), "stream `a`: a commit must have 1 to 1000 events, got 0"),
        (to("a", &["x"; 1001], None), "a commit must have 1 to 1000 events, got 1001"),
        (large, "stream `a`: an event must be at most 524288 bytes, got 524293"),
        (heavy, "stream `a`: a commit must be at most 4194304 bytes, got 4608045"),
    ];
    let mut world = World::at_ms(5);
    for (commit, text) in cases {
        let error = run(&mut world, &commit).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    assert!(world.rows.is_empty());
    run(&mut world, &to(&"ñ".repeat(256), &["x"; 1000], None)).unwrap();
}

#[test]
fn a_commit_tells_exactly_its_followers() {
    let mut world = World::at_ms(5);
    let follower =
        |name: &str, source| Follower { reaction: name.to_owned(), source, from_head: false };
    let followers = [
        follower("one", Source::Stream("orders-1".to_owned())),
        follower("family", Source::Family("orders-".to_owned())),
        follower("all", Source::All),
    ];
    for stream in ["orders-1", "orders-2", "Orders-3"] {
        world.append(stream, 2, &followers);
    }
    let subs = world.subs().map(|it| (&*it.reaction, &*it.stream, it.at, it.want));
    assert_eq!(
        subs.collect::<Vec<_>>(),
        [
            ("all", "Orders-3", -1, 1),
            ("all", "orders-1", -1, 1),
            ("all", "orders-2", -1, 1),
            ("family", "orders-1", -1, 1),
            ("family", "orders-2", -1, 1),
            ("one", "orders-1", -1, 1),
        ]
    );
}

/// spec B198
#[test]
fn a_commit_neither_waits_for_a_lease_nor_touches_it() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 1, &followers());
    lease(&mut world);
    let before = world.sub("mail", "orders-1").clone();
    world.pass_ms(10);
    world.append("orders-1", 3, &followers());
    assert_eq!(*world.sub("mail", "orders-1"), Subscription { want: 3, ..before });
}

#[test]
fn a_place_with_work_keeps_its_turn_and_one_without_gets_a_new_one() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 1, &followers());
    world.pass_ms(10);
    world.append("orders-1", 1, &followers());
    assert_eq!(world.sub("mail", "orders-1").since, Timestamp::from_ms(5));
    work_off(&mut world);
    world.pass_ms(10);
    world.append("orders-1", 1, &followers());
    assert_eq!(world.sub("mail", "orders-1").since, Timestamp::from_ms(25));
}

#[test]
fn a_reaction_that_comes_later_begins_with_the_first_event() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 3, &[]);
    let mut catch_up =
        |stream: &str| world.decide::<_, ()>(|draft| follow(draft, &ws(), stream, &followers()));
    assert_eq!(catch_up("orders-2"), Ok(false));
    assert_eq!(catch_up("orders-1"), Ok(true));
    let sub = world.sub("mail", "orders-1");
    assert_eq!((sub.at, sub.want), (-1, 2));

    work_off(&mut world);
    let before = world.rows.clone();
    world.decide::<_, ()>(|draft| follow(draft, &ws(), "orders-1", &followers())).unwrap();
    assert_eq!(world.rows, before, "following a stream again has changed rows");
}

/// spec B218, B219, N74
#[test]
fn a_guard_ends_the_stream_and_closing_twice_changes_nothing() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 2, &followers());
    assert_eq!(guard(&mut world, "orders-1", 1), Ok(Closed { guard: 2, already: false }));
    let before = world.rows.clone();
    assert_eq!(guard(&mut world, "orders-1", 1), Ok(Closed { guard: 2, already: true }));
    for expected in [None, Some(Expected::Version(2)), Some(Expected::Version(0))] {
        let refusal = run(&mut world, &to("orders-1", &["x"], expected)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "stream `orders-1`: closed at version 2, nothing more is committed"
        );
    }
    assert_eq!(world.rows, before);
    assert_eq!(world.log("orders-1")[2].name, GUARD);
}

/// spec N74
#[test]
fn a_write_before_the_guard_sends_the_close_back() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 2, &followers());
    world.append("orders-1", 1, &followers());
    let refusal = guard(&mut world, "orders-1", 1).unwrap_err();
    let (stream, expected) = ("orders-1".to_owned(), Expected::Version(1));
    assert_eq!(refusal, StreamRefusal::Conflict { stream, expected, actual: 2 });
    assert_eq!(phase(&mut world, "orders-1"), ClosePhase::Open);
}

/// spec B218, N69, N74
#[test]
fn a_truncation_waits_for_every_follower_and_every_lease() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 2, &followers());
    guard(&mut world, "orders-1", 1).unwrap();

    let leased = lease(&mut world);
    let holder = Some((ENGINE, Timestamp::from_ms(30_005)));
    let behind =
        |at, blocked, lease| vec![Behind { reaction: "mail".to_owned(), at, blocked, lease }];
    let waits = behind(-1, None, holder);
    assert_eq!(phase(&mut world, "orders-1"), ClosePhase::Waiting(waits.clone()));
    assert_eq!(cut(&mut world, "orders-1", 9), Ok(Truncated::Waits(waits)));

    let stop = |draft: &mut Draft| crate::reaction::block(draft, &leased.lease, 1, "stuck");
    world.decide(stop).unwrap();
    let waits = behind(1, Some("stuck".to_owned()), None);
    assert_eq!(cut(&mut world, "orders-1", 9), Ok(Truncated::Waits(waits)));
    assert_eq!(world.log("orders-1").len(), 3);

    let names = ["orders-1".to_owned()];
    let unblock =
        |draft: &mut Draft| crate::reaction::unblock(draft, &ws(), &followers()[0], &names);
    world.decide(unblock).unwrap();
    work_off(&mut world);
    assert_eq!(phase(&mut world, "orders-1"), ClosePhase::Settled);
    assert_eq!(cut(&mut world, "orders-1", 9), Ok(Truncated::Done(2)));
}

/// spec B218: a truncation waits for a lease, wherever the cursor is: its worker may be active.
#[test]
fn a_truncation_waits_for_a_lease_on_a_place_that_has_passed_the_guard() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 2, &followers());
    guard(&mut world, "orders-1", 1).unwrap();
    let leased = lease(&mut world);
    let passed = Subscription { at: 2, ..world.sub("mail", "orders-1").clone() };
    world.rows.insert(sub_key(&ws(), "mail", "orders-1"), passed.into());
    assert!(matches!(cut(&mut world, "orders-1", 9), Ok(Truncated::Waits(_))));
    world.now = leased.until;
    assert_eq!(cut(&mut world, "orders-1", 9), Ok(Truncated::Done(2)));
}

/// spec N74
#[test]
fn a_truncation_goes_on_in_chunks_after_a_crash_and_keeps_the_guard() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 5, &followers());
    guard(&mut world, "orders-1", 4).unwrap();
    work_off(&mut world);
    assert_eq!(phase(&mut world, "orders-1"), ClosePhase::Settled);
    assert_eq!(cut(&mut world, "orders-1", 2), Ok(Truncated::Partly(2)));
    // The archive is complete, and must not be written again from the remaining events.
    assert_eq!(phase(&mut world, "orders-1"), ClosePhase::Truncating);
    assert_eq!(cut(&mut world, "orders-1", 2), Ok(Truncated::Partly(2)));
    assert_eq!(cut(&mut world, "orders-1", 2), Ok(Truncated::Done(1)));
    assert_eq!(phase(&mut world, "orders-1"), ClosePhase::Truncated);
    assert_eq!(cut(&mut world, "orders-1", 2), Ok(Truncated::Done(0)));
    let left: Vec<_> = world.log("orders-1").iter().map(|it| (it.version, &*it.name)).collect();
    assert_eq!(left, [(5, GUARD)]);
}

#[test]
fn a_truncation_gives_a_reaction_defined_after_the_guard_its_place() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 2, &[]);
    let command =
        Close { ws: ws(), stream: "orders-1".to_owned(), expected: None, meta: Payload::null() };
    world.decide(|draft| close(draft, &command, &[])).unwrap();
    assert!(matches!(cut(&mut world, "orders-1", 9), Ok(Truncated::Waits(_))));
    work_off(&mut world);
    assert_eq!(cut(&mut world, "orders-1", 9), Ok(Truncated::Done(2)));
}

#[test]
fn only_what_is_closed_is_truncated_and_only_what_is_truncated_restarts() {
    let mut world = World::at_ms(5);
    let text = |result: Result<(), StreamRefusal>| result.unwrap_err().to_string();
    world.append("orders-1", 2, &followers());
    for stream in ["orders-1", "orders-2"] {
        let closed_first = format!("stream `{stream}`: must be closed first");
        assert_eq!(text(cut(&mut world, stream, 9).map(drop)), closed_first);
        assert_eq!(text(begin_again(&mut world, stream).map(drop)), closed_first);
    }
    guard(&mut world, "orders-1", 1).unwrap();
    let early = "must be truncated before it is restarted, but it is waiting";
    assert!(text(begin_again(&mut world, "orders-1").map(drop)).ends_with(early));
    work_off(&mut world);
    let early = "must be truncated before it is restarted, but it is settled";
    assert!(text(begin_again(&mut world, "orders-1").map(drop)).ends_with(early));
}

/// spec N74
#[test]
fn a_restart_begins_at_version_0_with_a_snapshot_that_followers_have_behind_them() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 4, &followers());
    guard(&mut world, "orders-1", 3).unwrap();
    work_off(&mut world);
    cut(&mut world, "orders-1", 9).unwrap();
    let number = world.stream("orders-1").unwrap().id;

    let committed = begin_again(&mut world, "orders-1").unwrap();
    assert_eq!((committed.first, committed.last, committed.positions), (0, 0, 6..=6));
    let now = world.stream("orders-1").unwrap().id;
    assert_ne!(now, number);
    let of_before = Expected::Of(number, 0);
    let told = run(&mut world, &to("orders-1", &["x"], Some(of_before))).unwrap_err();
    let (stream, actual) = ("orders-1".to_owned(), 0);
    assert_eq!(told, StreamRefusal::Conflict { stream, expected: of_before, actual });
    assert_eq!(Expected::seen(Some(now), 0), Expected::Of(now, 0));
    let log = world.log("orders-1");
    assert_eq!((log.len(), &*log[0].name, log[0].data.as_str()), (1, SNAPSHOT, r#"{"total":7}"#));
    let rows = world.rows.values().filter(|row| matches!(row, Row::StreamEventRow(_))).count();
    assert_eq!(rows, 1, "events from before the restart still exist");

    let sub = world.sub("mail", "orders-1");
    assert_eq!((sub.at, sub.want), (0, 0));
    world.append("orders-1", 1, &followers());
    let leased = lease(&mut world);
    assert_eq!((leased.at, leased.want), (0, 1));
}

#[test]
fn a_place_from_before_a_restart_says_nothing_about_the_stream_of_now() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 4, &followers());
    let late = lease(&mut world);
    // The stream is closed, truncated and restarted while the reaction is not defined, although its
    // lease is still held.
    let command =
        Close { ws: ws(), stream: "orders-1".to_owned(), expected: None, meta: Payload::null() };
    world.decide(|draft| close(draft, &command, &[])).unwrap();
    world.decide(|draft| truncate(draft, &ws(), "orders-1", &[], 9)).unwrap();
    let again = Restart {
        ws: ws(),
        stream: "orders-1".to_owned(),
        snapshot: Payload::null(),
        meta: Payload::null(),
    };
    world.decide(|draft| restart(draft, &again, &[])).unwrap();
    world.append("orders-1", 8, &followers());

    let acks = [Ack { lease: late.lease, upto: 3 }];
    let outcome = world.decide(|draft| ack(draft, &acks)).unwrap();
    assert_eq!(outcome, [crate::reaction::Outcome::Lost]);
    let sub = world.sub("mail", "orders-1");
    assert_eq!((sub.at, sub.want), (-1, 8));
    assert_eq!(sub.log, world.stream("orders-1").unwrap().id);
}

#[test]
fn a_reset_in_the_middle_of_a_truncation_is_waited_for() {
    let mut world = World::at_ms(5);
    world.append("orders-1", 4, &followers());
    guard(&mut world, "orders-1", 3).unwrap();
    work_off(&mut world);
    cut(&mut world, "orders-1", 2).unwrap();
    let names = ["orders-1".to_owned()];
    world.decide(|draft| reset(draft, &ws(), &followers()[0], &names)).unwrap();
    assert!(matches!(cut(&mut world, "orders-1", 2), Ok(Truncated::Waits(_))));
    work_off(&mut world);
    assert_eq!(phase(&mut world, "orders-1"), ClosePhase::Truncating);
}

#[test]
fn a_commit_asks_for_all_that_it_needs_at_once() {
    let mut world = World::at_ms(5);
    let (snapshot, _) = world.read(&ReadSet::default());
    let mut draft = Draft::new(snapshot);
    let command = to("orders-1", &["x"], Some(Expected::Version(7)));
    let Err(Stop::Need(reads)) = commit(&mut draft, &command, &followers()) else {
        panic!("the commit did not request the rows that it needs");
    };
    let wanted = [
        RowKey::Stream(ws(), "orders-1".to_owned()),
        sub_key(&ws(), "mail", "orders-1"),
        RowKey::LogHead(ws()),
    ];
    assert_eq!(reads.rows.into_iter().collect::<Vec<_>>(), wanted);
}
