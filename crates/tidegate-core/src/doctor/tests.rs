use super::*;
use crate::{
    definition::Definition,
    id::{EventId, RunId, Seq},
    json::Payload,
    key::Key,
    retention::CLOCK_GRACE_MS,
    row::{
        Class, Engine, Epoch, Event, Gate, GateKey, GateState, Hold, Kind, LogHead, Phase,
        PlannedGate, Rank, Receipt, RowKey, Run, Scope, Slots, Source, Span, Stream,
        StreamEventRow, Subscription, Wait, WaitOn,
    },
    time::Timestamp,
};

const AT: Timestamp = Timestamp::from_micros(1);

fn event_id(seq: i64) -> EventId {
    EventId { seq: Seq(seq), salt: 1 }
}

fn gate_key(ws: &str) -> GateKey {
    let (app, name, slot) = ("default".to_owned(), "sync".to_owned(), String::new());
    GateKey::new(&Scope { ws: ws.into(), class: Class::Whole, app, name, slot, key: Key::Whole })
}

/// Returns valid rows: a driven run inside its gate, and a stream with two events and a reaction.
fn healthy() -> BTreeMap<RowKey, Row> {
    let (ws, id): (Workspace, _) = ("w".into(), RunId { seq: Seq(7), salt: 1 });
    let name = ("default".to_owned(), "sync".to_owned());
    let rank = Rank { at: AT, seq: Seq(7) };
    let source = Source::Event(event_id(6));
    let mut run = Run::new(id, ws.clone(), name.clone(), (1, Seq(3)), source, AT, rank);
    run.plan = vec![PlannedGate::new(gate_key("w"), Span::Executing)];
    (run.entered, run.phase, run.owner, run.started) = (1, Phase::Driven, Some(9), true);
    let slots = Slots { holders: vec![Hold::new(id, 1)], ..Slots::default() };
    let gate =
        Gate { key: gate_key("w"), id: Seq(5), at: AT, due: None, state: GateState::Slots(slots) };
    let workflow = serde_json::json!({ "name": "sync", "concurrency": { "limit": 1 } });
    let body = serde_json::to_string(&Definition::parse(&workflow).unwrap().value).unwrap();
    let def = Def {
        lane: Seq(3),
        ws: ws.clone(),
        app: name.0,
        name: name.1,
        version: 1,
        body: Payload::parse(body.as_bytes(), 1000).unwrap(),
        released: Some(1),
        assigned: None,
        deployed: false,
    };
    let event = Event {
        id: event_id(6),
        ws: ws.clone(),
        kind: Kind::Event,
        name: "sync".to_owned(),
        at: AT,
        ts: None,
        data: Payload::null(),
        delivery: None,
        attributes: None,
    };
    let stream =
        Stream { ws: ws.clone(), name: "s".to_owned(), id: Seq(20), head: 1, closed: false };
    let sub = Subscription { want: 1, ..Subscription::new(&stream, "r") };
    let logged = |version: i64| StreamEventRow {
        stream: Seq(20),
        version,
        ws: ws.clone(),
        pos: version + 1,
        id: event_id(30 + version),
        name: "happened".to_owned(),
        at: AT,
        data: Payload::null(),
        meta: Payload::null(),
    };
    let rows: [Row; 10] = [
        gate.into(),
        run.into(),
        Engine::new(9, 30_000).into(),
        stream.into(),
        sub.into(),
        LogHead { ws: ws.clone(), pos: 2 }.into(),
        def.into(),
        event.into(),
        logged(0).into(),
        logged(1).into(),
    ];
    rows.into_iter().map(|row| (row.key(), row)).collect()
}

fn check(mut checkup: Checkup, rows: &BTreeMap<RowKey, Row>) -> Vec<&'static str> {
    for row in rows.values() {
        checkup.see(row);
    }
    let report = checkup.conclude();
    assert_eq!(report.found, report.findings.len() as u64);
    report.findings.iter().map(|finding| finding.rule.number()).collect()
}

#[test]
fn what_holds_is_not_found() {
    assert_eq!(check(Checkup::default(), &healthy()), [""; 0]);
}

#[test]
fn another_workspace_is_not_looked_at() {
    let mut rows = healthy();
    rows.remove(&RowKey::Run(Seq(7)));
    assert_eq!(check(Checkup::of("other".into()), &rows), [""; 0]);
    assert_eq!(check(Checkup::of("w".into()), &rows), ["I4"]);
}

#[test]
fn each_thing_that_breaks_is_found_by_its_number() {
    type Break = fn(&mut BTreeMap<RowKey, Row>);
    let breaks: &[(Break, &[&str])] = &[
        (|rows| drop(rows.remove(&RowKey::Run(Seq(7)))), &["I4"]),
        (|rows| drop(rows.remove(&RowKey::Gate(gate_key("w")))), &["I4"]),
        (|rows| drop(rows.remove(&RowKey::Engine(9))), &["I27"]),
        (|rows| drop(rows.remove(&RowKey::Event(Seq(6)))), &["I44"]),
        (|rows| drop(rows.remove(&RowKey::Def(Seq(3)))), &["I31"]),
        (|rows| drop(rows.remove(&RowKey::StreamEventRow(Seq(20), 0))), &["I35"]),
        (|rows| drop(rows.remove(&RowKey::StreamEventRow(Seq(20), 1))), &["I35"]),
        (|rows| drop(rows.remove(&RowKey::LogHead("w".into()))), &["I37", "I37"]),
    ];
    for (n, (change, expected)) in breaks.iter().enumerate() {
        let mut rows = healthy();
        change(&mut rows);
        assert_eq!(check(Checkup::default(), &rows), *expected, "break {n}");
    }
}

#[test]
fn a_receipt_names_runs_that_can_be_found() {
    let named = |field: &str, seq: i64| {
        let run = RunId { seq: Seq(seq), salt: 1 };
        let receipt = Receipt {
            seq: Seq(40),
            ws: "w".into(),
            app: "default".to_owned(),
            workflow: "sync".to_owned(),
            key: String::new(),
            event: Seq(6),
            at: AT,
            verdict: serde_json::json!({ "outcome": "queued", field: run }),
        };
        let mut rows = healthy();
        rows.insert(RowKey::Receipt(Seq(40)), receipt.into());
        rows
    };
    for field in ["runId", "holder", "replaced"] {
        assert_eq!(check(Checkup::default(), &named(field, 7)), [""; 0], "{field}");
        assert_eq!(check(Checkup::default(), &named(field, 8)), ["I48"], "{field}");
    }
    let (gone, later) = (named("runId", 8), Timestamp::from_micros(2));
    assert_eq!(check(Checkup::default().kept_since(AT), &gone), ["I48"]);
    let old = check(Checkup::default().kept_since(later), &gone);
    assert_eq!(old, [""; 0], "a run that retention may have deleted is reported");
    // The time before which retention has deleted ended runs is stored in a row without a
    // workspace. Because the clock may step back, a run may seem to have ended up to a minute
    // before its receipt was written.
    let minute = |micros| AT.minus_ms(CLOCK_GRACE_MS).micros() + micros;
    let [just_in_time, too_late] = [1, 0].map(|micros| Timestamp::from_micros(minute(micros)));
    for (horizon, found) in [(too_late, &["I48"][..]), (just_in_time, &[]), (AT, &[])] {
        let mut gone = gone.clone();
        let row = Epoch { ws: "".into(), n: horizon.micros() };
        gone.insert(RowKey::Epoch("".into()), row.into());
        for checkup in [Checkup::default(), Checkup::of("w".into())] {
            assert_eq!(check(checkup, &gone), found, "{horizon:?}");
        }
    }
    let first = check(Checkup::default(), &named("firstRunId", 8));
    assert_eq!(first, [""; 0], "a missing run in `firstRunId` is reported");
}

#[test]
fn a_row_that_says_something_else_is_found() {
    let changed = |change: &dyn Fn(&mut Row)| {
        let mut rows = healthy();
        rows.values_mut().for_each(change);
        check(Checkup::default(), &rows)
    };
    let run = |change: fn(&mut Run)| {
        changed(&|row| {
            if let Row::Run(run) = row {
                change(run);
            }
        })
    };
    assert_eq!(run(|run| run.phase = Phase::Waiting), ["I3", "I27", "I32"]);
    assert_eq!(run(|run| run.entered = 0), ["I3", "I4"]);
    assert_eq!(run(|run| run.staged = 2), ["I47"]);
    let named = |run: &mut Run| {
        let on = || WaitOn::Named { name: "door".to_owned() };
        let wait = |step: &str| Wait {
            step: step.to_owned(),
            on: on(),
            until: None,
            within_ms: None,
            pool: None,
            since: Seq(8),
        };
        run.waits = vec![wait("a"), wait("b")];
    };
    // The waits are not in the index, either.
    assert_eq!(run(named), ["I4", "I4", "I4", "I97"]);
    assert_eq!(run(|run| run.ws = "other".into()), ["I44", "I44"]);
    let crowd = |row: &mut Row| {
        if let Row::Gate(Gate { state: GateState::Slots(slots), .. }) = row {
            let run = RunId { seq: Seq(8), salt: 1 };
            slots.holders.push(Hold::new(run, 1));
        }
    };
    assert_eq!(changed(&crowd), ["I2", "I4"]);
    let beyond = |row: &mut Row| {
        if let Row::Subscription(sub) = row {
            sub.at = 2;
        }
    };
    assert_eq!(changed(&beyond), ["I38"]);
}
