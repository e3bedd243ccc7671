use std::collections::BTreeSet;

use super::*;
use crate::{
    id::{EventId, RunId},
    key::{Key, Scalar},
    row::{Class, Gate, Rank, Scope, Share, ShareOf, Source, Span, Tag},
    time::Timestamp,
};

/// Returns the fair gate of a workflow.
fn gate(workflow: &str) -> GateKey {
    let (ws, class, app) = ("ws".into(), Class::Whole, "a".to_owned());
    let (name, slot, key) = (workflow.to_owned(), String::new(), Key::Whole);
    GateKey::new(&Scope { ws, class, app, name, slot, key })
}

/// Returns a run that is the first one of its value in the queue of a gate, at a tag. Its value and
/// its share have its number.
fn run(gate: &GateKey, seq: i64, tag: u32) -> Run {
    let id = RunId { seq: Seq(seq), salt: 0 };
    let source = Source::Event(EventId { seq: Seq(1000 + seq), salt: 0 });
    let rank = Rank { at: Timestamp::default(), seq: Seq(seq) };
    let names = ("a".to_owned(), "w".to_owned());
    let mut run = Run::new(id, "ws".into(), names, (1, Seq(1)), source, Timestamp::default(), rank);
    let value = Key::Value(Scalar::text(seq.to_string()));
    let share = Some(ShareOf { value, number: Some(Seq(seq)) });
    run.plan = vec![PlannedGate { share, ..PlannedGate::new(gate.clone(), Span::Executing) }];
    run.phase =
        Phase::Queued { gate: Seq(1), place: Place::of_tag(Tag::default().after(tag, 1), rank) };
    run
}

/// Returns the share of a run's value.
fn share(gate: &GateKey, run: &Run) -> Row {
    let key = gate.share(&Key::Value(Scalar::text(run.id.seq.to_string()))).unwrap();
    let state = Share { base: Tag::default(), first: run.id.seq, rank: run.rank };
    let (id, at, due) = (run.id.seq, Timestamp::default(), None);
    Gate { key, id, at, due, state: GateState::Share(state) }.into()
}

/// Lets a transaction read the front of a queue, and make changes.
fn read(expected: &Expected, gate: &GateKey, queue: &[Run], changes: &[Change]) -> Expected {
    let mut snapshot = Snapshot::default();
    snapshot.add(Scan::Queue(gate.clone()), 9, queue.iter().cloned().map(Row::from).collect());
    expected.learn(expected.lesson(&snapshot), changes).unwrap()
}

/// Returns the runs that a transaction is expected to serve if it reads this part of a queue.
fn served(expected: &Expected, gate: &GateKey, limit: u32) -> Vec<i64> {
    let (reads, inputs) =
        expected.turns(&ReadSet::default().scan(Scan::Queue(gate.clone()), limit));
    assert_eq!(reads.rows.len(), inputs.len());
    inputs.iter().map(|input| input.0 - 1000).collect()
}

#[test]
fn the_next_runs_of_a_fair_queue_are_expected_once_they_have_been_seen_twice() {
    let at = gate("w");
    let queue = [run(&at, 1, 10), run(&at, 2, 20), run(&at, 3, 30)];
    let once = read(&Expected::default(), &at, &queue, &[]);
    assert!(served(&once, &at, 3).is_empty());
    let twice = read(&once, &at, &queue, &[]);
    assert_eq!(served(&twice, &at, 3), [1, 2]);
    assert!(served(&twice, &gate("other"), 3).is_empty());
    // The first run is served, its value comes again, and a new value comes between.
    let (again, new) = (run(&at, 1, 25), run(&at, 4, 15));
    let changes = [
        Change::Update(again.clone().into()),
        Change::Update(share(&at, &again)),
        Change::Insert(new.clone().into()),
        Change::Insert(share(&at, &new)),
    ];
    let served_one = read(&twice, &at, &queue, &changes);
    assert_eq!(served(&served_one, &at, 9), [4, 2, 1, 3]);
    let gone: Vec<Change> = (1..=4).map(|run| Change::Delete(RowKey::Run(Seq(run)))).collect();
    let empty = served_one.learn(Lesson::default(), &gone).unwrap();
    assert!(served(&empty, &at, 9).is_empty());
    assert!(empty.queues.is_empty() && empty.runs.is_empty());
}

#[test]
fn a_queue_that_others_have_moved_is_not_expected_until_it_is_seen_again() {
    let at = gate("w");
    let queue = [run(&at, 1, 10), run(&at, 2, 20)];
    let known = read(&read(&Expected::default(), &at, &queue, &[]), &at, &queue, &[]);
    let moved = [run(&at, 5, 12), run(&at, 2, 20)];
    let others = read(&known, &at, &moved, &[]);
    assert!(served(&others, &at, 3).is_empty());
    assert_eq!(served(&read(&others, &at, &moved, &[]), &at, 3), [5, 2]);
}

#[test]
fn only_so_many_values_and_queues_are_remembered() {
    let mut known = Expected::default();
    for n in 0..=MAX_QUEUES {
        let at = gate(&n.to_string());
        let first = i64::try_from(n).unwrap() * 1000;
        let queue: Vec<Run> = (0..300).map(|n| run(&at, first + n, 1)).collect();
        known = read(&known, &at, &queue, &[]);
        let sizes: BTreeSet<usize> = known.queues.values().map(|it| it.firsts.size()).collect();
        assert_eq!(sizes, BTreeSet::from([MAX_VALUES]));
        assert_eq!(known.runs.size(), known.queues.size() * MAX_VALUES);
    }
    assert_eq!(known.queues.size(), 1);
}
