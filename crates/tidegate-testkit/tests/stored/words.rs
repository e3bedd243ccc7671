//! Tests the stored form of every variant of every stored enum, and of every verdict.

use expect_test::expect_file;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_core::{
    flow::verdict::{By, Verdict},
    key::Decimal,
    row::{
        At, Awaited, Begun, BulkWhat, Ending, Kind, LiveState, Phase, Place, Purpose, Rank,
        RunError, SessionOp, Source, Span, StepKind, WaitOn,
    },
    session::Outcome,
    stream::Committed,
    time::Timestamp,
};
use tidegate_testkit::sample::{event_id, gate_key, payload, run_id};

use crate::assert_same;

fn all<T: Serialize>(variants: impl IntoIterator<Item = T>) -> Value {
    variants.into_iter().map(|variant| json!(variant)).collect()
}

fn place() -> Place {
    Place { tier: 1, rank: Rank { at: moment(), seq: run_id(2).seq } }
}

fn moment() -> Timestamp {
    Timestamp::from_ms(1_000_000_000_000)
}

fn phases() -> [Phase; 6] {
    let line = Phase::Queued { gate: run_id(1).seq, place: place() };
    [line, Phase::Ready, Phase::Driven, Phase::Waiting, Phase::Paused, Phase::Stopping]
}

fn waits() -> [WaitOn; 7] {
    [
        WaitOn::Time,
        WaitOn::Retry,
        WaitOn::Event {
            name: "a".to_owned(),
            matches: vec![("b".to_owned(), vec![1])],
            filter: None,
            whole: false,
        },
        WaitOn::Named { name: "a".to_owned() },
        WaitOn::Signal { name: "a".to_owned() },
        WaitOn::Child { run: run_id(1) },
        WaitOn::Before { run: run_id(1) },
    ]
}

fn marks() -> [At; 6] {
    let awaited = [
        Awaited::Time,
        Awaited::Retry,
        Awaited::Event,
        Awaited::Signal,
        Awaited::Child(run_id(1)),
        Awaited::Before(run_id(1)),
    ];
    let waiting = At::Waiting(awaited.map(|on| ("step".to_owned(), on)).into());
    [At::Queue(gate_key("main", "k")), At::Ready, At::Driven, waiting, At::Paused, At::Several]
}

fn endings() -> [Ending; 3] {
    let error = RunError::new("Lost", "why");
    [
        Ending::Completed { output: payload("1") },
        Ending::Failed { error },
        Ending::Cancelled { reason: "why".to_owned(), by: Some(run_id(1)) },
    ]
}

fn operations() -> [SessionOp; 5] {
    let (path, value) = (None, payload("1"));
    let by = Decimal::parse("1.5").expect("a number");
    [
        SessionOp::Get { path: None },
        SessionOp::Set { path: None, value: value.clone() },
        SessionOp::Merge { path: None, value: value.clone() },
        SessionOp::Append { path: None, value },
        SessionOp::Increment { path, by },
    ]
}

fn steps() -> [StepKind; 10] {
    [
        StepKind::Run,
        StepKind::Sleep,
        StepKind::Event,
        StepKind::Signal,
        StepKind::Invoke,
        StepKind::Send,
        StepKind::State,
        StepKind::Compensate,
        StepKind::Commit,
        StepKind::Settle,
    ]
}

#[test]
fn the_variants_are_written_as_agreed() {
    let purposes =
        [Purpose::Ordinary, Purpose::Compensates(run_id(1)), Purpose::OnFailure(run_id(1))];
    let bulk = [BulkWhat::Cancel { reason: "why".to_owned() }, BulkWhat::Pause, BulkWhat::Resume];
    let live = [LiveState::Queued, LiveState::Running, LiveState::Waiting, LiveState::Paused];
    let value = json!({
        "run.body phase": all(phases()),
        "run.body begun": all([Begun::Untracked, Begun::No, Begun::Yes]),
        "run.body waits on": all(waits()),
        "run.body needs span": all([Span::Run, Span::Start, Span::Executing]),
        "run.body trail": all(marks()),
        "run.body and ended.body source":
            all([Source::Event(event_id(1)), Source::Batch(event_id(1))]),
        "run.body and ended.body purpose": all(purposes),
        "ended.body ending": all(endings()),
        "ended.state": endings().iter().map(Ending::state).collect::<Vec<_>>(),
        "step.kind": all(steps()),
        "event.kind": all([Kind::Event, Kind::Request, Kind::Cron, Kind::Invoke]),
        "staged.op": all(operations()),
        "chore.work bulk what": all(bulk),
        "chore.work bulk filter state": all(live),
    });
    assert_same(expect_file!["words.json"], &value);
}

/// Tests the stored form of the outputs that the engine itself gives to steps.
#[test]
fn the_outputs_of_steps_are_written_as_agreed() {
    let committed = Committed {
        log: run_id(1).seq,
        first: 2,
        last: 3,
        positions: 4..=5,
        ids: vec![event_id(6), event_id(7)],
        at: moment(),
    };
    let session = Outcome { version: 1, value: payload("[ 1 ]") };
    let value = json!({
        "commit": committed.to_value(),
        "state": session.to_payload().as_str(),
    });
    assert_same(expect_file!["steps.json"], &value);
}

fn verdicts() -> [Verdict; 11] {
    let (by, run, at) = (By::gate(&gate_key("main", "k")), run_id(1), moment());
    [
        Verdict::Started { run },
        Verdict::Queued { run, by: by.clone(), start_at: Some(at) },
        Verdict::WaitsForWorker { run },
        Verdict::Coalesced { run, by: by.clone(), fire_at: at },
        Verdict::Buffered { run, by: by.clone(), pending: 2, flush_at: at },
        Verdict::Dropped { by: by.clone(), retry_at: at },
        Verdict::Skipped { by: by.clone(), holder: run },
        Verdict::Deduped { by: by.clone(), first: event_id(1), run: Some(run) },
        Verdict::Replaced { run, by: by.clone(), replaced: run_id(2) },
        Verdict::Rejected { control: "throttle", reason: "why".to_owned() },
        Verdict::HeldByAncestor { by, holder: run },
    ]
}

/// Tests the form of a verdict in a stored reply and in a receipt, as callers read it.
#[test]
fn the_verdicts_are_written_as_agreed() {
    let both = |verdict: Verdict| json!({ "kept": verdict, "receipt": verdict.to_value() });
    let value: Value = verdicts().into_iter().map(both).collect();
    assert_same(expect_file!["verdicts.json"], &value);
}
