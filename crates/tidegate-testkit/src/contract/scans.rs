//! Contract of scans: they find the right rows, in the documented order, up to the limit.

use std::sync::Arc;

use tidegate_core::{
    id::Seq,
    reads::{Found, ReadSet, Scan},
    row::{
        ApiKey, Chore, Ended, Ending, Engine, Gate, GateKey, Item, Listener, ListenerEffect, Phase,
        Place, Purpose, Rank, Receipt, Row, RowKey, Run, Schedule, Signal, Source, Stream,
        StreamEventRow, Subscription, WaitPath, WaitRow,
    },
    time::Timestamp,
    turn::{Claim, Turn},
};
use tidegate_store::Store;

use super::{insert, seen};
use crate::sample;

/// A limit greater than the number of rows in any test.
const ALL: u32 = 1000;

/// Runs a scan with a large limit and with every smaller one, in a transaction and without one.
/// `expected` is the complete result, in order.
pub(super) async fn check(store: &Arc<dyn Store>, scan: Scan, expected: Vec<Row>) {
    let keys: Vec<RowKey> = expected.iter().map(Row::key).collect();
    let lengths = (1..=u32::try_from(expected.len()).unwrap()).rev();
    for limit in std::iter::once(ALL).chain(lengths) {
        let reads = ReadSet::default().scan(scan.clone(), limit);
        for snapshot in [seen(store, reads.clone()).await, store.read(reads).await.unwrap()] {
            let first = keys.iter().take(limit as usize).cloned().collect();
            assert_eq!(snapshot.scans[&scan], Found { limit, keys: first }, "{scan:?}");
            let found: Vec<&Row> = expected.iter().take(limit as usize).collect();
            assert_eq!(snapshot.found(&scan), found, "{scan:?}");
            // Rows of a scan without locks are hints and must not be among the locked rows of the
            // snapshot.
            let passes = expected.iter().any(|row| snapshot.rows.contains_key(&row.key()));
            let hinted = expected.iter().any(|row| row.key().is_locked()) && !scan.is_locked();
            assert!(!(passes && hinted), "{scan:?}");
        }
    }
}

/// Returns the store's time.
async fn now(store: &Arc<dyn Store>) -> Timestamp {
    store.read(ReadSet::default()).await.unwrap().now
}

fn rows<R: Into<Row>>(rows: impl IntoIterator<Item = R>) -> Vec<Row> {
    rows.into_iter().map(Into::into).collect()
}

fn rank(at: i64, seq: i64) -> Rank {
    Rank { at: Timestamp::from_ms(at), seq: Seq(seq) }
}

/// A queue is ordered by tier, then rank, then the run's number.
pub async fn a_line_is_read_by_place(store: &Arc<dyn Store>) {
    let gates = [sample::gate("main", "a", 70), sample::gate("main", "b", 71)];
    let standing = |seq: i64, gate: i64, tier: i64, rank: Rank| Run {
        phase: Phase::Queued { gate: Seq(gate), place: Place { tier, rank } },
        ..sample::run(seq)
    };
    let line = [
        standing(9, 70, -1, rank(9, 9)),
        standing(8, 70, 0, rank(-5, 9)),
        standing(7, 70, 0, rank(1, 2)),
        standing(5, 70, 0, rank(1, 3)),
        standing(6, 70, 0, rank(1, 3)),
        standing(1, 70, 4, rank(0, 0)),
    ];
    let others = [
        standing(20, 71, 0, rank(0, 0)),
        Run { phase: Phase::Ready, ..sample::run(21) },
        sample::run(22),
    ];
    insert(store, gates).await;
    insert(store, line.iter().rev().cloned().chain(others)).await;
    let mut back = rows(line.clone());
    back.reverse();
    check(store, Scan::QueueEnd(sample::gate_key("main", "a")), back).await;
    let tier = Scan::QueueTier(sample::gate_key("main", "a"), 0);
    check(store, tier, rows(line[1..5].to_vec())).await;
    let last = Scan::QueueTier(sample::gate_key("main", "a"), 4);
    check(store, last, rows(line[5..].to_vec())).await;
    check(store, Scan::QueueTier(sample::gate_key("main", "a"), 1), Vec::new()).await;
    check(store, Scan::Queue(sample::gate_key("main", "a")), rows(line)).await;
}

/// A gate without a row has an empty queue.
pub async fn a_line_without_a_gate_is_empty(store: &Arc<dyn Store>) {
    let phase = Phase::Queued { gate: Seq(0), place: Place { tier: 0, rank: rank(0, 0) } };
    insert(store, [Run { phase, ..sample::run(1) }]).await;
    check(store, Scan::Queue(sample::gate_key("main", "gone")), Vec::new()).await;
    check(store, Scan::QueueEnd(sample::gate_key("main", "gone")), Vec::new()).await;
    check(store, Scan::QueueTier(sample::gate_key("main", "gone"), 0), Vec::new()).await;
}

/// Workflows take turns, beginning with that of the first range. The versions of one workflow share
/// a turn, and their runs are ordered by rank. Runs of other ranges and workspaces are not found.
pub async fn ready_runs_come_in_turns(store: &Arc<dyn Store>) {
    let ready = |seq: i64, (workflow, lane): (i64, i64), rank: Rank| Run {
        lane: Seq(lane),
        turn: (workflow != lane).then_some(Seq(workflow)),
        phase: Phase::Ready,
        rank,
        ..sample::run(seq)
    };
    let (a, newer_a, b, c) = ((1, 1), (1, 7), (2, 2), (5, 5));
    let (first, second, third) = (
        [ready(9, b, rank(3, 1)), ready(8, c, rank(-9, 1)), ready(2, a, rank(-1, 5))],
        [ready(3, b, rank(3, 2)), ready(4, newer_a, rank(3, 2))],
        [ready(5, b, rank(3, 3)), ready(6, a, rank(3, 3))],
    );
    let elsewhere = Run { ws: "other".into(), ..ready(22, b, rank(-9, 0)) };
    let others = [
        ready(20, (3, 3), rank(0, 0)),
        ready(23, (1, 6), rank(0, 0)),
        Run { phase: Phase::Driven, ..sample::run(21) },
        elsewhere,
    ];
    let all: Vec<Run> = first.iter().chain(&second).chain(&third).cloned().collect();
    insert(store, all.iter().rev().cloned().chain(others)).await;
    let turn = |(workflow, lane): (i64, i64)| Turn { workflow: Seq(workflow), lane: Seq(lane) };
    let ranges = [(b, b), ((4, i64::MIN), (i64::MAX, i64::MAX)), (a, (1, 5)), (newer_a, newer_a)];
    let turns = ranges.map(|(from, to)| (turn(from), turn(to))).to_vec();
    let scan = Scan::Ready(Claim { ws: "main".into(), turns });
    // The limit is divided among the workflows: one run each, two each, or all.
    for (limit, count) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (6, 5), (7, 7), (ALL, 7)] {
        let asked = ReadSet::default().scan(scan.clone(), limit);
        for found in [seen(store, asked.clone()).await, store.read(asked).await.unwrap()] {
            let found = found.found(&scan);
            let expected = rows(all[..count].to_vec());
            assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{limit}");
        }
    }
    check(store, Scan::Ready(Claim::only("main".into(), [])), Vec::new()).await;
}

/// Due gates are first, longest due first. Gates that are due later follow, so that the reader
/// learns when to scan again.
pub async fn due_gates_come_longest_due_first(store: &Arc<dyn Store>) {
    let now = now(store).await;
    let due = |key: &str, due: Timestamp| Gate { due: Some(due), ..sample::gate("main", key, 1) };
    let past = now.minus_ms(50);
    let later = due("c", now.plus_ms(3_600_000));
    let gates = [due("z", now.minus_ms(90)), due("a", past), due("b", past), later];
    let others = [sample::gate("main", "never", 2)];
    insert(store, gates.iter().rev().cloned().chain(others)).await;
    check(store, Scan::DueGates(Timestamp::MIN), rows(gates.clone())).await;
    check(store, Scan::DueGates(past), rows(gates[1..].to_vec())).await;
}

/// Due runs are first, longest due first. Runs that are due later follow, so that the reader learns
/// when to scan again.
pub async fn due_runs_come_longest_due_first(store: &Arc<dyn Store>) {
    let now = now(store).await;
    let due = |seq: i64, due: Timestamp| Run { deadline: Some(due), ..sample::run(seq) };
    let past = now.minus_ms(50);
    let later = due(3, now.plus_ms(3_600_000));
    let runs = [due(9, now.minus_ms(90)), due(1, past), due(2, past), later];
    let others = [sample::run(5)];
    insert(store, runs.iter().rev().cloned().chain(others)).await;
    check(store, Scan::DueRuns(Timestamp::MIN), rows(runs.clone())).await;
    check(store, Scan::DueRuns(past), rows(runs[1..].to_vec())).await;
}

/// A row whose due time is exactly now is due. Only for stores whose clock the test controls.
pub async fn what_is_due_at_this_moment_is_due(store: &Arc<dyn Store>) {
    let now = now(store).await;
    let next = Some(Timestamp::from_micros(now.micros() + 1));
    let deferred = Subscription { due: Some(now), ..sample::sub("mail", "a") };
    let leased = Subscription { owner: Some(1), until: Some(now), ..sample::sub("mail", "b") };
    let early = [
        Subscription { due: next, ..sample::sub("mail", "c") },
        Subscription { owner: Some(1), until: next, ..sample::sub("mail", "d") },
    ];
    insert(store, early).await;
    insert(store, [deferred.clone(), leased.clone()]).await;
    check(store, Scan::Work("main".into(), "mail".to_owned()), rows([deferred, leased])).await;
}

/// Runs without an owner and runs of other engines are not found.
pub async fn runs_are_found_by_their_owner(store: &Arc<dyn Store>) {
    let owned = |seq, owner| Run { owner: Some(owner), ..sample::run(seq) };
    let mine = [owned(2, u128::MAX), owned(30, u128::MAX)];
    insert(store, mine.iter().rev().cloned().chain([owned(1, 0), sample::run(4)])).await;
    check(store, Scan::Owned(u128::MAX), rows(mine)).await;
}

/// The scan continues after the last number of the page before.
pub async fn runs_of_a_lane_are_paged_by_number(store: &Arc<dyn Store>) {
    let runs = [3, 5, 40].map(sample::run);
    let other = Run { lane: Seq(2), ..sample::run(6) };
    insert(store, runs.iter().rev().cloned().chain([other])).await;
    check(store, Scan::Lane(Seq(1), Seq(0)), rows(runs.clone())).await;
    check(store, Scan::Lane(Seq(1), Seq(3)), rows(runs[1..].to_vec())).await;
    check(store, Scan::Lane(Seq(1), Seq(40)), Vec::new()).await;
}

/// Live runs of all requested lanes are in one list, by descending number; other lanes are left
/// out.
pub async fn live_runs_are_listed_newest_first(store: &Arc<dyn Store>) {
    let run = |seq, lane| Run { lane: Seq(lane), ..sample::run(seq) };
    let runs = [run(40, 1), run(9, 2), run(5, 1), run(3, 2)];
    insert(store, runs.iter().rev().cloned().chain([run(6, 3)])).await;
    let lanes = vec![Seq(2), Seq(1), Seq(2), Seq(99)];
    check(store, Scan::Live(lanes.clone(), Seq(i64::MAX)), rows(runs.clone())).await;
    check(store, Scan::Live(lanes.clone(), Seq(9)), rows(runs[2..].to_vec())).await;
    check(store, Scan::Live(lanes, Seq(3)), Vec::new()).await;
    check(store, Scan::Live(Vec::new(), Seq(i64::MAX)), Vec::new()).await;
}

/// Ended runs are listed like live ones, with a filter on their status.
pub async fn ended_runs_are_listed_newest_first(store: &Arc<dyn Store>) {
    let completed = || Ending::Completed { output: sample::payload("1") };
    let cancelled = || Ending::Cancelled { reason: "by hand".to_owned(), by: None };
    let run = |seq, lane, ending| Ended { lane: Seq(lane), ending, ..sample::ended_run(seq) };
    let runs = [
        run(40, 1, completed()),
        run(9, 2, cancelled()),
        run(5, 1, cancelled()),
        run(3, 2, completed()),
    ];
    insert(store, runs.iter().rev().cloned().chain([run(6, 3, completed())])).await;
    let scan = |states: &[&'static str], below| {
        Scan::Ended(vec![Seq(2), Seq(1), Seq(2)], states.to_vec(), Seq(below))
    };
    let all = ["completed", "failed", "cancelled"];
    check(store, scan(&all, i64::MAX), rows(runs.clone())).await;
    check(store, scan(&all, 9), rows(runs[2..].to_vec())).await;
    check(store, scan(&["cancelled"], i64::MAX), rows(runs[1..3].to_vec())).await;
    check(store, scan(&["failed"], i64::MAX), Vec::new()).await;
    check(store, scan(&[], i64::MAX), Vec::new()).await;
}

/// spec R5: dead engines that still own runs are found, because the engine that marked them dead
/// may die before it has reaped all runs.
pub async fn dead_engines_are_found_while_they_own_runs(store: &Arc<dyn Store>) {
    let engine = |id, dead| Engine { dead, ..Engine::new(id, sample::LEASE_MS) };
    insert(store, [engine(u128::MAX, false), engine(3, true), engine(2, true), engine(1, false)])
        .await;
    insert(store, [Run { owner: Some(2), ..sample::run(1) }]).await;
    let found = [engine(1, false), engine(2, true), engine(u128::MAX, false)];
    check(store, Scan::Engines, rows(found)).await;
    check(store, Scan::Buriable, rows([engine(3, true)])).await;
}

/// Steps are ordered by the bytes of their ids.
pub async fn steps_are_found_by_id(store: &Arc<dyn Store>) {
    let steps = ["", "Z", "a", "a:1", "b", "é"].map(|id| sample::step(1, id));
    insert(store, steps.iter().rev().cloned().chain([sample::step(2, "a")])).await;
    check(store, Scan::Steps(Seq(1)), rows(steps)).await;
}

/// Items are ordered by number, not by digits as text.
pub async fn items_are_found_by_place(store: &Arc<dyn Store>) {
    let item = |run, n| Item { run: Seq(run), n, event: sample::event_id(n.into()) };
    let items = [0, 2, 10].map(|n| item(1, n));
    insert(store, items.iter().rev().cloned().chain([item(2, 0)])).await;
    check(store, Scan::Items(Seq(1)), rows(items)).await;
}

/// A wait is found by its exact name, path and value.
pub async fn waits_are_found_by_name_path_and_value(store: &Arc<dyn Store>) {
    let wait = |name: &str, path: &str, value: &[u8], run, step: &str| WaitRow {
        ws: "main".into(),
        name: name.to_owned(),
        path: path.to_owned(),
        value: value.to_vec(),
        run: Seq(run),
        step: step.to_owned(),
    };
    let found =
        [(2, "b"), (10, "a"), (10, "b")].map(|(run, step)| wait("e", "p", &[0, 255], run, step));
    let others = [
        wait("e", "p", &[0], 1, "a"),
        wait("e", "", &[], 1, "a"),
        wait("f", "p", &[0, 255], 1, "a"),
        WaitRow { ws: "other".into(), ..wait("e", "p", &[0, 255], 1, "a") },
    ];
    insert(store, found.iter().rev().cloned().chain(others.clone())).await;
    let ws: Arc<str> = "main".into();
    let after = |path: &str, value: &[u8], run, step: &str| {
        let (name, path, step) = ("e".to_owned(), path.to_owned(), step.to_owned());
        Scan::Waits(ws.clone(), name, path, value.to_vec(), Seq(run), step)
    };
    let waits = |path: &str, value: &[u8]| after(path, value, i64::MIN, "");
    check(store, waits("p", &[0, 255]), rows(found.clone())).await;
    check(store, waits("", &[]), rows([others[1].clone()])).await;
    for (run, step, left) in [(1, "z", 0), (2, "a", 0), (2, "b", 1), (9, "", 1), (10, "a", 2)] {
        check(store, after("p", &[0, 255], run, step), rows(found[left..].to_vec())).await;
    }
    check(store, after("p", &[0, 255], 10, "b"), Vec::new()).await;

    let path = |ws: &str, name: &str, path: &str| WaitPath {
        ws: ws.into(),
        name: name.to_owned(),
        path: path.to_owned(),
    };
    let paths = ["", "B", "a"].map(|it| path("main", "e", it));
    let others = [path("main", "f", "p"), path("other", "e", "p")];
    insert(store, paths.iter().rev().cloned().chain(others)).await;
    check(store, Scan::WaitPaths(ws, "e".to_owned()), rows(paths)).await;
}

/// Runs are found by the number of their first listener, from a run on.
pub async fn runs_are_found_by_their_first_listener(store: &Arc<dyn Store>) {
    let listener = |first, value: u8| Listener {
        name: "e".to_owned(),
        path: "p".to_owned(),
        value: vec![value],
        since: Seq(1),
        filter: None,
        until: None,
        effect: ListenerEffect::Cancel,
        first,
    };
    let run = |seq, values: &[u8]| Run {
        listeners: (0..).zip(values).map(|(n, value)| listener(n == 0, *value)).collect(),
        ..sample::run(seq)
    };
    let filed = Run { listeners: vec![listener(false, 7)], ..sample::run(13) };
    let runs = [run(2, &[7]), run(10, &[7, 8]), run(11, &[8, 7]), run(12, &[]), filed];
    insert(store, runs.iter().rev().cloned()).await;
    let scan =
        |value, from| Scan::Listening(Listener::number("main", "e", "p", &[value]), Seq(from));
    let some = |places: &[usize]| rows(places.iter().map(|n| runs[*n].clone()));
    check(store, scan(7, i64::MIN), some(&[0, 1])).await;
    check(store, scan(7, 2), some(&[0, 1])).await;
    check(store, scan(7, 3), some(&[1])).await;
    check(store, scan(8, i64::MIN), some(&[2])).await;
    check(store, scan(9, i64::MIN), Vec::new()).await;
}

/// Chores are found by due time, or by the name of the event that made them; both oldest first.
pub async fn chores_are_found_by_time_and_by_topic(store: &Arc<dyn Store>) {
    let chore = |seq: i64, topic: Option<&str>, due: Option<i64>| Chore {
        topic: topic.map(str::to_owned),
        due: due.map(Timestamp::from_micros),
        ..sample::chore(seq)
    };
    let chores = [
        chore(1, Some("e"), Some(30)),
        chore(2, Some("e"), None),
        chore(3, None, Some(20)),
        chore(4, Some("f"), Some(20)),
        Chore { ws: "other".into(), ..chore(5, Some("e"), Some(i64::MIN)) },
    ];
    insert(store, chores.iter().rev().cloned()).await;
    let some = |places: &[usize]| rows(places.iter().map(|n| chores[*n].clone()));
    check(store, Scan::DueChores(Timestamp::MIN), some(&[4, 2, 3, 0])).await;
    let from = Timestamp::from_micros(20);
    check(store, Scan::DueChores(from), some(&[2, 3, 0])).await;
    check(store, Scan::Chores("main".into(), "e".to_owned()), some(&[0, 1])).await;
    check(store, Scan::Chores("main".into(), "g".to_owned()), Vec::new()).await;
    let below = |topic: &str, seq| Scan::ChoresBelow("main".into(), topic.to_owned(), Seq(seq));
    check(store, below("e", 9), some(&[1, 0])).await;
    check(store, below("e", 2), some(&[0])).await;
    check(store, below("", 9), Vec::new()).await;
}

/// The scan finds only signals of this run with this name.
pub async fn an_inbox_is_read_oldest_first(store: &Arc<dyn Store>) {
    let signal = |run, name: &str, seq| Signal {
        run: Seq(run),
        name: name.to_owned(),
        seq: Seq(seq),
        data: sample::payload("1"),
    };
    let signals = [9, 10, 200].map(|seq| signal(1, "go", seq));
    let others = [signal(1, "stop", 1), signal(2, "go", 1)];
    insert(store, signals.iter().rev().cloned().chain(others)).await;
    check(store, Scan::Inbox(Seq(1), "go".to_owned()), rows(signals)).await;
}

/// Receipts of an event are ordered by number.
pub async fn receipts_are_found_by_event(store: &Arc<dyn Store>) {
    let receipt = |seq, event| Receipt {
        seq: Seq(seq),
        ws: "main".into(),
        app: "shop".to_owned(),
        workflow: "order".to_owned(),
        key: String::new(),
        event: Seq(event),
        at: Timestamp::from_ms(1),
        verdict: serde_json::json!("drop"),
    };
    let receipts = [receipt(9, 1), receipt(10, 1)];
    insert(store, receipts.iter().rev().cloned().chain([receipt(1, 2)])).await;
    check(store, Scan::Receipts(Seq(1)), rows(receipts)).await;
}

/// A window or buffer is found by the number of its run; other kinds of gates are not found.
pub async fn a_window_is_found_by_its_run(store: &Arc<dyn Store>) {
    let window = |key: &str, id| Gate {
        key: sample::gate_key("main", key),
        id: Seq(id),
        ..sample::window(id)
    };
    insert(store, [window("a", 2), window("b", 1), sample::gate("main", "c", 3)]).await;
    check(store, Scan::Window(Seq(1)), rows([window("b", 1)])).await;
    check(store, Scan::Window(Seq(3)), Vec::new()).await;
    check(store, Scan::Window(Seq(4)), Vec::new()).await;
}

/// Gates are found for one workspace, or for all.
pub async fn gates_are_found_by_the_beginning_of_their_key(store: &Arc<dyn Store>) {
    let mut gates: Vec<_> = ["", "B", "a", "é"].map(|key| sample::gate("main", key, 1)).into();
    gates.extend([sample::gate("mai", "a", 2), sample::gate("main2", "a", 3)]);
    // The first key after all keys that begin with the prefix below.
    let beyond = GateKey::from_bytes(b"\0\x04maio");
    gates.push(Gate { key: beyond, ..sample::gate("main", "a", 4) });
    insert(store, gates.clone()).await;
    gates.sort_by_key(|gate| gate.key.clone());
    let beginning = [&4u16.to_be_bytes()[..], b"main"].concat();
    let main = gates.iter().filter(|gate| gate.key.as_bytes().starts_with(&beginning)).cloned();
    let main = rows(main);
    assert_eq!(main.len(), 4);
    check(store, Scan::Gates(beginning), main).await;
    check(store, Scan::Gates(Vec::new()), rows(gates.clone())).await;
    check(store, Scan::Gates(gates[0].key.as_bytes().to_vec()), rows(gates[..1].to_vec())).await;
    check(store, Scan::Gates(vec![255]), Vec::new()).await;
}

/// The range includes the version where it starts.
pub async fn a_stream_is_read_from_a_version_on(store: &Arc<dyn Store>) {
    let log: Vec<_> = (0..12).map(|version| sample::logged(5, version, version + 1)).collect();
    insert(store, log.iter().rev().cloned().chain([sample::logged(6, 0, 99)])).await;
    check(store, Scan::Log(Seq(5), 0), rows(log.clone())).await;
    check(store, Scan::Log(Seq(5), 9), rows(log[9..].to_vec())).await;
    check(store, Scan::Log(Seq(5), 12), Vec::new()).await;
}

/// The feed is read after the last position of the page before, which is excluded.
pub async fn a_feed_is_read_after_a_position(store: &Arc<dyn Store>) {
    let feed = [sample::logged(6, 0, 2), sample::logged(5, 1, 9), sample::logged(5, 0, 10)];
    let other = StreamEventRow { ws: "other".into(), ..sample::logged(7, 0, 3) };
    insert(store, feed.iter().rev().cloned().chain([other])).await;
    check(store, Scan::Feed("main".into(), 0), rows(feed.clone())).await;
    check(store, Scan::Feed("main".into(), 2), rows(feed[1..].to_vec())).await;
    check(store, Scan::Feed("main".into(), 10), Vec::new()).await;
}

/// The feed is read backwards, from before the last position of the page before.
pub async fn a_feed_is_read_backwards_before_a_position(store: &Arc<dyn Store>) {
    let feed = [sample::logged(5, 0, 10), sample::logged(5, 1, 9), sample::logged(6, 0, 2)];
    let other = StreamEventRow { ws: "other".into(), ..sample::logged(7, 0, 3) };
    insert(store, feed.iter().rev().cloned().chain([other])).await;
    check(store, Scan::FeedBack("main".into(), i64::MAX), rows(feed.clone())).await;
    check(store, Scan::FeedBack("main".into(), 10), rows(feed[1..].to_vec())).await;
    check(store, Scan::FeedBack("main".into(), 2), Vec::new()).await;
}

/// A stream is found by its number, which is all that an event has of it.
pub async fn a_stream_is_found_by_its_number(store: &Arc<dyn Store>) {
    let stream = |name: &str, id| Stream {
        ws: "main".into(),
        name: name.to_owned(),
        id: Seq(id),
        head: 0,
        closed: false,
    };
    insert(store, [stream("a", 2), stream("b", 1)]).await;
    check(store, Scan::StreamOf(Seq(1)), rows([stream("b", 1)])).await;
    check(store, Scan::StreamOf(Seq(3)), Vec::new()).await;
}

/// Snapshots of every projection of the stream are found.
pub async fn snapshots_are_found_by_their_stream(store: &Arc<dyn Store>) {
    let of_one = [sample::snapshot(1, "a"), sample::snapshot(1, "b")];
    insert(store, of_one.iter().rev().cloned().chain([sample::snapshot(2, "a")])).await;
    check(store, Scan::Snapshots(Seq(1)), rows(of_one)).await;
}

/// Subscriptions with new events are ordered by the time since when they wait, then by stream.
pub async fn work_is_found_longest_waiting_first(store: &Arc<dyn Store>) {
    let waiting = |stream: &str, since| Subscription {
        since: Timestamp::from_micros(since),
        ..sample::sub("mail", stream)
    };
    let work = [waiting("z", -5), waiting("B", 3), waiting("a", 3), waiting("c", 20)];
    let others = [
        sample::sub("other", "a"),
        Subscription { ws: "other".into(), ..sample::sub("mail", "a") },
    ];
    insert(store, work.iter().rev().cloned().chain(others)).await;
    check(store, Scan::Work("main".into(), "mail".to_owned()), rows(work)).await;
}

/// A subscription whose lease has expired, or whose deferral has ended, is found; leased, blocked
/// and deferred ones are not.
pub async fn leased_blocked_and_deferred_work_is_not_found(store: &Arc<dyn Store>) {
    let now = now(store).await;
    let (past, future) = (now.minus_ms(1), now.plus_ms(3_600_000));
    let sub = |stream: &str| sample::sub("mail", stream);
    let free = [
        Subscription { due: Some(past), ..sub("deferred until now") },
        Subscription { until: Some(future), ..sub("given back") },
        Subscription { owner: Some(1), until: Some(past), ..sub("run out") },
        // These times were written before the clock stepped back; a claim caps them.
        Subscription {
            owner: Some(1),
            until: Some(future),
            since: now.plus_ms(60_000),
            ..sub("ahead")
        },
        Subscription { due: Some(future), since: now.plus_ms(61_000), ..sub("ahead and deferred") },
    ];
    let others = [
        Subscription { owner: Some(1), until: Some(future), ..sub("leased") },
        Subscription { due: Some(future), ..sub("deferred") },
        Subscription { blocked: Some("poison".to_owned()), ..sub("blocked") },
        Subscription { want: -1, ..sub("idle") },
        Subscription { due: Some(future), since: now, ..sub("of this moment") },
        Subscription {
            blocked: Some("poison".to_owned()),
            since: future,
            ..sub("ahead and blocked")
        },
    ];
    insert(store, free.iter().cloned().chain(others)).await;
    check(store, Scan::Work("main".into(), "mail".to_owned()), rows(free)).await;
}

/// Subscriptions in any state are ordered by reaction, then by stream.
pub async fn places_are_found_by_workspace(store: &Arc<dyn Store>) {
    let blocked = Subscription { blocked: Some("poison".to_owned()), ..sample::sub("b", "B") };
    let subs = [sample::sub("a", "z"), blocked, sample::sub("b", "a")];
    let other = Subscription { ws: "other".into(), ..sample::sub("a", "a") };
    insert(store, subs.iter().rev().cloned().chain([other])).await;
    let all = |reaction: &str, stream: &str| {
        Scan::Subs("main".into(), reaction.to_owned(), stream.to_owned())
    };
    check(store, all("", ""), rows(subs.clone())).await;
    check(store, all("a", "z"), rows(subs[1..].to_vec())).await;
    check(store, all("b", "B"), rows(subs[2..].to_vec())).await;
    check(store, all("b", "a"), Vec::new()).await;
}

/// Streams are ordered by name and read after a cursor.
pub async fn streams_are_found_by_workspace(store: &Arc<dyn Store>) {
    let stream = |ws: &str, name: &str, id| Stream {
        ws: ws.into(),
        name: name.to_owned(),
        id: Seq(id),
        head: 3,
        closed: name == "B",
    };
    let streams = [stream("main", "B", 1), stream("main", "a", 2), stream("main", "a-1", 3)];
    insert(store, streams.iter().rev().cloned().chain([stream("other", "a", 4)])).await;
    let after = |name: &str| Scan::Streams("main".into(), name.to_owned());
    check(store, after(""), rows(streams.clone())).await;
    check(store, after("a"), rows(streams[2..].to_vec())).await;
    check(store, after("a-1"), Vec::new()).await;
}

/// Schedules are ordered by their planned time; a schedule without a planned occurrence is not
/// found.
pub async fn schedules_come_in_the_order_of_their_next_occurrence(store: &Arc<dyn Store>) {
    let planned = |id: &str, at| Schedule { next: Some(at), ..sample::schedule(id) };
    let later = now(store).await.plus_ms(3_600_000);
    let [long_ago, soon] = [-5, 3].map(Timestamp::from_micros);
    let done = Schedule { next: None, ..sample::schedule("done") };
    let found =
        [planned("z", long_ago), planned("B", soon), planned("a", soon), planned("c", later)];
    insert(store, found.iter().rev().cloned().chain([done.clone()])).await;
    check(store, Scan::Schedules, rows(found.clone())).await;
    let others = [
        Schedule { workflow: "other".to_owned(), next: None, ..sample::schedule("a") },
        Schedule { app: "other".to_owned(), next: None, ..sample::schedule("a") },
        Schedule { ws: "other".into(), next: None, ..sample::schedule("a") },
    ];
    insert(store, others).await;
    let [z, b, a, c] = found;
    let of = Scan::SchedulesOf("main".into(), "shop".to_owned(), "order".to_owned());
    check(store, of, rows([b, a, c, done, z])).await;
}

/// Chunks are in the order in which they were emitted, over all steps.
pub async fn chunks_are_read_after_a_place(store: &Arc<dyn Store>) {
    let chunks = [
        sample::chunk(1, "z", 0, 1),
        sample::chunk(1, "a", 0, 2),
        sample::chunk(1, "a", 1, 9),
        sample::chunk(1, "", 0, 10),
    ];
    insert(store, chunks.iter().rev().cloned().chain([sample::chunk(2, "a", 0, 3)])).await;
    check(store, Scan::Chunks(Seq(1), 0), rows(chunks.clone())).await;
    check(store, Scan::Chunks(Seq(1), 2), rows(chunks[2..].to_vec())).await;
    check(store, Scan::Chunks(Seq(1), 10), Vec::new()).await;
}

/// An event is found if no row refers to it, whether or not the numbers are near each other.
pub async fn events_are_loose_when_nothing_relies_on_them(store: &Arc<dyn Store>) {
    let event = |seq| sample::event(seq, "1");
    let events = [3, 10, 11, 12, 13, 14, 15, 20_000].map(event);
    insert(store, events.iter().rev().cloned()).await;
    check(store, Scan::EventsAfter(Seq(0)), rows(events.clone())).await;
    check(store, Scan::EventsAfter(Seq(14)), rows(events[6..].to_vec())).await;
    check(store, Scan::LooseEvents(Seq(0), Seq(20_000)), rows(events.clone())).await;
    let near = Run { source: Source::Event(sample::event_id(10)), ..sample::run(4) };
    let far = Run { source: Source::Event(sample::event_id(11)), ..sample::run(50_000) };
    let ended = |seq, event| Ended {
        source: Source::Event(sample::event_id(event)),
        ..sample::ended_run(seq)
    };
    insert(store, [near, far]).await;
    insert(store, [ended(5, 12), ended(60_000, 13)]).await;
    insert(store, [Item { run: Seq(99), n: 0, event: sample::event_id(14) }]).await;
    insert(store, [sample::window(15)]).await;
    let [first, .., last] = events;
    check(store, Scan::LooseEvents(Seq(0), Seq(20_000)), rows([first, last.clone()])).await;
    check(store, Scan::LooseEvents(Seq(3), Seq(20_000)), rows([last])).await;
    check(store, Scan::LooseEvents(Seq(3), Seq(19_999)), Vec::new()).await;
}

/// An ended run is found if its worker has stopped and no other run refers to it.
pub async fn ended_runs_are_loose_when_no_run_relies_on_them(store: &Arc<dyn Store>) {
    let ended = [2, 3, 4, 5, 6, 9].map(sample::ended_run);
    insert(store, ended.iter().rev().cloned()).await;
    check(store, Scan::EndedAfter(Seq(0)), rows(ended.clone())).await;
    check(store, Scan::EndedAfter(Seq(5)), rows(ended[4..].to_vec())).await;
    check(store, Scan::LooseEnded(Seq(0), Seq(9)), rows(ended.clone())).await;
    let of = |seq| Some(sample::run_id(seq));
    insert(
        store,
        [
            Run { replay_of: of(3), ..sample::run(100) },
            Run { purpose: Purpose::Compensates(sample::run_id(4)), ..sample::run(101) },
            Run { batch_of: of(5), replay_of: of(2), ..sample::run(102) },
            sample::run(6),
        ],
    )
    .await;
    let [first, .., last] = ended;
    check(store, Scan::LooseEnded(Seq(0), Seq(9)), rows([first, last.clone()])).await;
    check(store, Scan::LooseEnded(Seq(2), Seq(9)), rows([last])).await;
    check(store, Scan::LooseEnded(Seq(2), Seq(8)), Vec::new()).await;
}

/// Receipts are found by number, and signals of a run under all names.
pub async fn receipts_and_signals_are_found_to_be_forgotten(store: &Arc<dyn Store>) {
    let audit = [3, 5, 40].map(sample::audit);
    insert(store, audit.iter().rev().cloned()).await;
    check(store, Scan::AuditAfter(Seq(3)), rows(audit[1..].to_vec())).await;
    let receipts = [3, 5, 40].map(sample::receipt);
    insert(store, receipts.iter().rev().cloned()).await;
    check(store, Scan::ReceiptsAfter(Seq(0)), rows(receipts.clone())).await;
    check(store, Scan::ReceiptsAfter(Seq(3)), rows(receipts[1..].to_vec())).await;
    let signal = |run, name: &str, seq| Signal {
        run: Seq(run),
        name: name.to_owned(),
        seq: Seq(seq),
        data: sample::payload("1"),
    };
    let signals = [signal(1, "a", 2), signal(1, "a", 10), signal(1, "b", 1)];
    insert(store, signals.iter().rev().cloned().chain([signal(2, "a", 1)])).await;
    check(store, Scan::Signals(Seq(1)), rows(signals)).await;
}

/// Stored replies are found by number, whatever their keys, and API keys in all workspaces.
pub async fn replies_and_api_keys_are_found(store: &Arc<dyn Store>) {
    let replies = [("z", 3), ("b", 5), ("a", 40)].map(|(id, seq)| sample::reply(id, seq));
    insert(store, replies.iter().rev().cloned()).await;
    check(store, Scan::RepliesAfter(Seq(0)), rows(replies.clone())).await;
    check(store, Scan::RepliesAfter(Seq(3)), rows(replies[1..].to_vec())).await;
    let other = ApiKey { ws: "other".into(), ..sample::api_key("B") };
    let keys = [other, sample::api_key("a"), sample::api_key("b")];
    insert(store, keys.iter().rev().cloned()).await;
    check(store, Scan::ApiKeys, rows(keys)).await;
}

/// A scan without matching rows returns an empty result.
pub async fn a_scan_that_finds_nothing_says_so(store: &Arc<dyn Store>) {
    for scan in every_scan() {
        check(store, scan, Vec::new()).await;
    }
}

/// A limit of 0 reads no rows, and the result says that it is incomplete.
pub async fn a_limit_of_nothing_finds_nothing(store: &Arc<dyn Store>) {
    insert(store, [sample::run(1)]).await;
    let scan = Scan::Lane(Seq(1), Seq(0));
    let snapshot = seen(store, ReadSet::default().scan(scan.clone(), 0)).await;
    assert_eq!(snapshot.scans[&scan], Found { limit: 0, keys: Vec::new() });
}

fn every_scan() -> Vec<Scan> {
    let (ws, name): (Arc<str>, String) = ("main".into(), "name".to_owned());
    vec![
        Scan::Queue(sample::gate_key("main", "a")),
        Scan::QueueEnd(sample::gate_key("main", "a")),
        Scan::QueueTier(sample::gate_key("main", "a"), 0),
        Scan::Ready(Claim::all(ws.clone())),
        Scan::DueGates(Timestamp::MIN),
        Scan::DueRuns(Timestamp::MIN),
        Scan::Owned(1),
        Scan::Lane(Seq(1), Seq(0)),
        Scan::Engines,
        Scan::Steps(Seq(1)),
        Scan::Items(Seq(1)),
        Scan::WaitPaths(ws.clone(), name.clone()),
        Scan::Waits(ws.clone(), name.clone(), name.clone(), vec![1], Seq(1), name.clone()),
        Scan::Listening(1, Seq(0)),
        Scan::DueChores(Timestamp::MIN),
        Scan::Chores(ws.clone(), name.clone()),
        Scan::ChoresBelow(ws.clone(), name.clone(), Seq(9)),
        Scan::Inbox(Seq(1), name.clone()),
        Scan::Receipts(Seq(1)),
        Scan::Window(Seq(1)),
        Scan::Gates(vec![1]),
        Scan::Log(Seq(1), 0),
        Scan::Feed(ws.clone(), 0),
        Scan::Work(ws.clone(), name.clone()),
        Scan::Streams(ws.clone(), name),
        Scan::SchedulesOf(ws.clone(), String::new(), String::new()),
        Scan::Subs(ws, String::new(), String::new()),
        Scan::Chunks(Seq(1), 0),
        Scan::Signals(Seq(1)),
        Scan::EventsAfter(Seq(0)),
        Scan::EndedAfter(Seq(0)),
        Scan::LooseEvents(Seq(0), Seq(9)),
        Scan::LooseEnded(Seq(0), Seq(9)),
        Scan::ReceiptsAfter(Seq(0)),
        Scan::AuditAfter(Seq(0)),
        Scan::AuditBelow("main".into(), Seq(9)),
        Scan::AuditOf("main".into(), "sync".to_owned(), Seq(9)),
        Scan::Schedules,
        Scan::Buriable,
        Scan::FeedBack("main".into(), 9),
        Scan::StreamOf(Seq(1)),
        Scan::Snapshots(Seq(1)),
        Scan::EventsBelow("main".into(), Seq(9)),
        Scan::ReceiptsBelow("main".into(), Seq(9)),
        Scan::GatesBetween(vec![0], vec![1]),
        Scan::RunsOf(Seq(1)),
        Scan::EndedOf(Seq(1)),
        Scan::ItemsOf(Seq(1)),
        Scan::RepliesAfter(Seq(0)),
        Scan::ApiKeys,
    ]
}
