//! Sample rows: simple ones that tests change, and one of every kind with extreme values.

mod gates;
mod streams;
mod waits;

use std::{collections::BTreeMap, sync::Arc};

use tidegate_core::{
    id::{ChoreId, EventId, RunId, Seq},
    json::{MAX_EVENT_BYTES, Payload},
    row::{
        ApiKey, At, Audit, Awaited, BatchCosts, Begun, Bulk, BulkCounts, BulkFilter, BulkWhat,
        Calls, Chore, Chunk, Class, Costs, Def, Deferred, DeferredRequest, Delivery, DeliveryEnd,
        Ended, Ending, Engine, Epoch, Event, Fold, Gate, GateKey, GateState, Item, Kind, LanePlace,
        LiveState, Mark, Occurred, Parent, Phase, Place, PlannedGate, Progress, Purpose, Rank,
        Receipt, Reply, Row, Run, RunError, Schedule, Scope, Session, SessionOp, SessionRef,
        ShareOf, Signal, Slots, Source, Span, Staged, Step, StepKind, StreamEventRow,
        StreamSnapshot, Subscription, Trail, WaitPath, WaitPlace, WaitRow, Work,
    },
    time::Timestamp,
};

use tidegate_core::{
    key::{Decimal, Key, Path, Scalar},
    overrides::{Limited, Target},
};

/// Length of a lease in tests that do not wait for its end, in milliseconds.
pub const LEASE_MS: u32 = 30_000;

/// A name with characters that databases may mishandle.
pub const NAME: &str = "żółć 🦀 'quoted' \"too\" \\ %_ \u{1}\n;--";

/// Free text with a NUL, which PostgreSQL cannot store in text.
pub const FREE_TEXT: &str = "before\0after \u{10ffff}";

/// Payloads that must be stored byte for byte.
pub const PAYLOADS: &[&str] = &[
    r#""\u0000""#,
    r#"{"\u0000":"a\u0000b"}"#,
    r#""\ud800""#,
    r#"{"half":"\udc00x"}"#,
    "9007199254740993",
    "-123456789012345678901234567890.10",
    "1e400",
    "1.0",
    "-0",
    r#"{"a":1,"a":2,"a":1}"#,
    " {\n\t\"b\" : [ 1 ,2 ] , \"a\":null}\r\n",
    "[\r\n1,\r2]",
    r#""\u00e9é\/""#,
    "\"\u{7f}\u{2028}\u{10ffff}\"",
    "null",
];

/// Parses a payload from its text.
pub fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes(), MAX_EVENT_BYTES).expect("a sample is valid JSON")
}

/// Builds the key of a gate in workspace `ws`, with the key value `key`.
pub fn gate_key(ws: &str, key: &str) -> GateKey {
    GateKey::new(&Scope {
        ws: ws.into(),
        class: Class::Keyed,
        app: "shop".to_owned(),
        name: "order".to_owned(),
        slot: String::new(),
        key: Key::Value(Scalar::text(key.to_owned())),
    })
}

/// Builds a gate without holders.
pub fn gate(ws: &str, key: &str, id: i64) -> Gate {
    Gate {
        key: gate_key(ws, key),
        id: Seq(id),
        at: Timestamp::from_ms(1),
        due: None,
        state: GateState::Slots(Slots::default()),
    }
}

/// Builds a run in lane 1 with default values.
pub fn run(seq: i64) -> Run {
    Run {
        id: run_id(seq),
        ws: "main".into(),
        app: "shop".to_owned(),
        workflow: "order".to_owned(),
        version: 1,
        lane: Seq(1),
        turn: None,
        source: Source::Event(event_id(seq)),
        queued_at: Timestamp::from_ms(seq),
        rank: Rank { at: Timestamp::from_ms(seq), seq: Seq(seq) },
        plan: Vec::new(),
        entered: 0,
        phase: Phase::Waiting,
        owner: None,
        fence: 0,
        started: false,
        in_pools: Vec::new(),
        failures: BTreeMap::new(),
        deferrals: BTreeMap::new(),
        deaths: 0,
        begun: Begun::Untracked,
        pause_reason: None,
        takeovers: 0,
        waits: Vec::new(),
        listeners: Vec::new(),
        answered: Vec::new(),
        pausing: false,
        parent: None,
        then: None,
        wanted: false,
        replaced: None,
        replaced_on: None,
        replay_of: None,
        claim: None,
        chunks: 0,
        progress: None,
        staged: 0,
        purpose: Purpose::Ordinary,
        compensations: 0,
        deadline: None,
        gives_up_at: None,
        expires_at: None,
        effect_run: None,
        batch_of: None,
        batch_costs: None,
        trail: Trail::default(),
    }
}

/// Builds a finished chore.
pub fn chore(seq: i64) -> Chore {
    Chore {
        id: ChoreId { seq: Seq(seq), salt: 9 },
        ws: "main".into(),
        topic: None,
        due: None,
        work: Work::Orphans { reason: String::new(), runs: Vec::new() },
    }
}

/// Builds an event with some data.
pub fn event(seq: i64, data: &str) -> Event {
    Event {
        id: event_id(seq),
        ws: "main".into(),
        kind: Kind::Event,
        name: "order/placed".to_owned(),
        at: Timestamp::from_ms(1),
        ts: None,
        data: payload(data),
        delivery: None,
        attributes: None,
    }
}

/// Builds a reaction's subscription with one event to handle.
pub fn sub(reaction: &str, stream: &str) -> Subscription {
    Subscription {
        ws: "main".into(),
        reaction: reaction.to_owned(),
        stream: stream.to_owned(),
        at: -1,
        want: 0,
        owner: None,
        fence: 0,
        until: None,
        due: None,
        since: Timestamp::from_ms(1),
        failures: 0,
        claims: 0,
        blocked: None,
        log: Seq(1),
        error: None,
    }
}

/// Builds an event of a stream.
pub fn logged(stream: i64, version: i64, pos: i64) -> StreamEventRow {
    StreamEventRow {
        stream: Seq(stream),
        version,
        ws: "main".into(),
        pos,
        id: event_id(pos),
        name: "Placed".to_owned(),
        at: Timestamp::from_ms(1),
        data: payload("{}"),
        meta: payload("{}"),
    }
}

/// Builds a stream's snapshot.
pub fn snapshot(stream: i64, kind: &str) -> StreamSnapshot {
    StreamSnapshot { stream: Seq(stream), kind: kind.to_owned(), version: 1, body: payload("{}") }
}

/// Builds a schedule with a planned time long ago.
pub fn schedule(id: &str) -> Schedule {
    Schedule {
        ws: "main".into(),
        app: "shop".to_owned(),
        workflow: "order".to_owned(),
        id: id.to_owned(),
        next: Some(Timestamp::from_ms(1)),
        last: None,
        outcome: None,
        paused_at: None,
    }
}

/// Builds the outcome of an occurrence, with every field set.
fn occurred() -> Occurred {
    let run_id = Some(RunId { seq: Seq(i64::MAX), salt: u64::MAX });
    Occurred { outcome: NAME.to_owned(), run_id, missed: Some(u32::MAX) }
}

/// Builds a chunk that a run emitted.
pub fn chunk(run: i64, step: &str, n: u32, seq: u32) -> Chunk {
    Chunk { run: Seq(run), step: step.to_owned(), attempt: 0, n, seq, data: payload("1") }
}

/// Builds a definition.
pub fn def(lane: i64, name: &str, version: u32) -> Def {
    Def {
        lane: Seq(lane),
        ws: "main".into(),
        app: "shop".to_owned(),
        name: name.to_owned(),
        version,
        body: payload("{}"),
        released: None,
        assigned: None,
        deployed: false,
    }
}

/// Builds a step that succeeded.
pub fn step(run: i64, id: &str) -> Step {
    Step {
        run: Seq(run),
        id: id.to_owned(),
        kind: StepKind::Run,
        fence: 1,
        at: Timestamp::from_ms(1),
        result: Ok(payload("1")),
        seq: Seq(run),
    }
}

/// Builds a run of lane 1 that completed.
pub fn ended_run(seq: i64) -> Ended {
    Ended {
        id: run_id(seq),
        ws: "main".into(),
        app: "shop".to_owned(),
        workflow: "order".to_owned(),
        version: 1,
        source: Source::Event(event_id(seq)),
        queued_at: Timestamp::from_ms(seq),
        ended_at: Timestamp::from_ms(seq),
        ending: Ending::Completed { output: payload("1") },
        parent: None,
        replay_of: None,
        lane: Seq(1),
        purpose: Purpose::Ordinary,
        effect_run: None,
        batch_of: None,
        batch_costs: None,
        then: None,
        trail: Trail::default(),
        takeovers: 0,
    }
}

/// Builds a receipt of event 1.
pub fn receipt(seq: i64) -> Receipt {
    Receipt {
        seq: Seq(seq),
        ws: "main".into(),
        app: "shop".to_owned(),
        workflow: "order".to_owned(),
        key: String::new(),
        event: Seq(1),
        at: Timestamp::from_ms(seq),
        verdict: serde_json::json!({ "outcome": "skipped" }),
    }
}

/// Builds a row of the audit log.
pub fn audit(seq: i64) -> Audit {
    let (ws, operation, subject) = ("main".into(), "setOverride".to_owned(), "sync".to_owned());
    let (seq, at, author) = (Seq(seq), Timestamp::from_ms(seq), Some("ops".to_owned()));
    let (before, after) = (None, Some(payload("{}")));
    Audit { seq, ws, at, author, address: None, operation, subject, before, after }
}

/// Builds an open window that will fire with this event.
pub fn window(last: i64) -> Gate {
    let (first, last) = (event_id(1), event_id(last));
    let state = GateState::Fold(Fold {
        run: run_id(1),
        first,
        last,
        after: Vec::new(),
        opened: Timestamp::from_ms(1),
        deadline: Timestamp::from_ms(2),
        count: 2,
        bytes: 2,
        costs: BTreeMap::new(),
        full: Vec::new(),
        held: false,
        paused: false,
        fired: false,
        led: false,
    });
    Gate { state, ..gate("main", "window", 1) }
}

/// Builds an API key.
pub fn api_key(id: &str) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        ws: "main".into(),
        name: "ours".to_owned(),
        hash: "00".to_owned(),
        read_only: false,
        made_at: Timestamp::from_micros(1),
        expires_at: None,
        used_at: None,
        revoked_at: None,
    }
}

/// Builds a stored reply without an answer yet.
pub fn reply(id: &str, seq: i64) -> Reply {
    Reply {
        ws: "main".into(),
        id: id.to_owned(),
        seq: Seq(seq),
        at: Timestamp::from_micros(1),
        hash: "00".to_owned(),
        answer: None,
        response: None,
    }
}

/// Builds a session's document.
pub fn session(id: &str) -> Session {
    Session {
        ws: "main".into(),
        app: "shop".to_owned(),
        flow: "chat".to_owned(),
        id: id.to_owned(),
        version: 1,
        body: payload("{}"),
    }
}

/// Builds an operation that a run has staged.
pub fn staged(run: i64, n: u32) -> Staged {
    Staged {
        run: Seq(run),
        n,
        session: SessionRef { app: "shop".into(), flow: "chat".into(), id: "s".into() },
        op: SessionOp::Get { path: None },
        version: 1,
        seen: None,
    }
}

/// Builds a run's id.
pub fn run_id(seq: i64) -> RunId {
    RunId { seq: Seq(seq), salt: 7 }
}

/// Builds an event's id.
pub fn event_id(seq: i64) -> EventId {
    EventId { seq: Seq(seq), salt: 8 }
}

/// Returns rows of every kind, at least one of each. Every optional part is present in one and
/// absent in another, and numbers are at the ends of their ranges. All keys are different.
pub fn every_row() -> Vec<Row> {
    let mut rows = gates::gates();
    rows.extend(chores());
    rows.extend(runs());
    rows.extend(ended());
    rows.extend(steps());
    rows.extend(streams::streams());
    rows.extend(streams::subs());
    rows.extend(events());
    rows.extend(sessions());
    rows.extend(guards());
    rows.extend(small());
    rows
}

const PAST: Timestamp = Timestamp::from_micros(i64::MIN);
const FUTURE: Timestamp = Timestamp::from_micros(i64::MAX);

fn chores() -> Vec<Row> {
    let filter = BulkFilter {
        app: Some(NAME.to_owned()),
        workflow: Some(FREE_TEXT.to_owned()),
        version: Some(u32::MAX),
        state: Some(LiveState::Paused),
        queued_before: Some(FUTURE),
        waits_at: Some(Target {
            pool: Some(NAME.to_owned()),
            control: Some(Limited::Concurrency),
            key_prefix: Some(NAME.to_owned()),
            ..Target::default()
        }),
    };
    let bulk = |what| Bulk {
        what,
        filter: filter.clone(),
        lanes: vec![Seq(i64::MAX), Seq(0)],
        after: Seq(i64::MIN),
        counts: BulkCounts { done: u32::MAX, refused: u32::MAX },
        ended_at: Some(PAST),
    };
    let after = WaitPlace { path: FREE_TEXT.to_owned(), run: Seq(i64::MAX), step: NAME.to_owned() };
    let work = [
        Work::Wake { event: Seq(i64::MAX), after },
        Work::Wake { event: Seq(0), after: WaitPlace::first(String::new()) },
        Work::Orphans { reason: FREE_TEXT.to_owned(), runs: vec![Seq(1), Seq(i64::MAX)] },
        Work::Bulk(bulk(BulkWhat::Cancel { reason: FREE_TEXT.to_owned() })),
        Work::Bulk(Bulk { ended_at: None, filter: BulkFilter::default(), ..bulk(BulkWhat::Pause) }),
        Work::Bulk(bulk(BulkWhat::Resume)),
        Work::Deliver(Deferred {
            name: NAME.to_owned(),
            delay_ms: Some(u64::MAX),
            dedupe_id: Some(NAME.to_owned()),
            request: Some(DeferredRequest {
                app: NAME.to_owned(),
                function_key: Some(Key::Missing),
                max_wait_ms: Some(u64::MAX),
            }),
        }),
        Work::HoldBack {
            target: Target { app: NAME.to_owned(), workflow: NAME.to_owned(), ..Target::default() },
            from: LanePlace { lane: Seq(i64::MAX), after: Seq(i64::MIN) },
        },
    ];
    let with = |(n, work): (i64, Work)| Chore {
        id: ChoreId { seq: Seq(i64::MAX - n), salt: u64::MAX },
        ws: NAME.into(),
        topic: (n > 0).then(|| NAME.to_owned()),
        due: (n > 0).then_some(if n > 1 { PAST } else { FUTURE }),
        work,
    };
    (0..).zip(work).map(with).map(Row::from).collect()
}

fn far_place() -> Place {
    Place { tier: i64::MAX, rank: Rank { at: PAST, seq: Seq(i64::MAX) } }
}

#[expect(clippy::too_many_lines, reason = "every field of a run")]
fn runs() -> Vec<Row> {
    let full = Run {
        id: RunId { seq: Seq(i64::MAX), salt: u64::MAX },
        ws: NAME.into(),
        app: NAME.to_owned(),
        workflow: NAME.to_owned(),
        version: u32::MAX,
        lane: Seq(i64::MAX),
        turn: Some(Seq(3)),
        source: Source::Batch(event_id(i64::MAX)),
        queued_at: FUTURE,
        rank: Rank { at: FUTURE, seq: Seq(i64::MAX) },
        plan: [Span::Run, Span::Start, Span::Executing]
            .map(|span| PlannedGate {
                tier: i64::MAX,
                costs: Costs::new(vec![1, 3]),
                bounded: true,
                after_queue: true,
                given: Some(gates::given()),
                steps: BTreeMap::from([(NAME.to_owned(), u32::MAX)]),
                share: Some(ShareOf {
                    value: Key::Value(Scalar::text(NAME.to_owned())),
                    number: Some(Seq(i64::MAX)),
                }),
                calls: BTreeMap::from([(
                    NAME.to_owned(),
                    Calls { since: u32::MAX, successes: u32::MAX },
                )]),
                ..PlannedGate::new(gate_key("every", "need"), span)
            })
            .into(),
        entered: 1,
        phase: Phase::Driven,
        owner: Some(u128::MAX),
        fence: i64::MAX,
        started: true,
        in_pools: vec![NAME.to_owned()],
        failures: BTreeMap::from([(NAME.to_owned(), u32::MAX)]),
        deferrals: BTreeMap::from([(NAME.to_owned(), u32::MAX)]),
        deaths: u32::MAX,
        begun: Begun::Yes,
        pause_reason: Some(FREE_TEXT.to_owned()),
        takeovers: u32::MAX,
        waits: waits::waits(),
        listeners: waits::listeners(),
        answered: vec!["paid".to_owned()],
        pausing: true,
        parent: Some(Parent {
            run: Seq(3),
            step: NAME.to_owned(),
            ancestors: vec![Seq(3), Seq(2)],
        }),
        then: Some(run_id(i64::MAX)),
        wanted: true,
        replaced: Some(run_id(5)),
        replaced_on: Some(gate_key("every", "place")),
        replay_of: Some(run_id(6)),
        claim: Some(gate_key("every", "claim")),
        chunks: u32::MAX,
        progress: Some(Progress { permille: 1000, text: FREE_TEXT.to_owned() }),
        staged: u32::MAX,
        purpose: Purpose::Compensates(run_id(i64::MAX)),
        compensations: u32::MAX,
        deadline: Some(PAST),
        gives_up_at: Some(FUTURE),
        expires_at: Some(FUTURE),
        effect_run: Some(run_id(7)),
        batch_of: Some(run_id(8)),
        batch_costs: Some(BatchCosts { events: u32::MAX, at: gates::sums() }),
        trail: trail(),
    };
    let phases = [
        Phase::Ready,
        Phase::Waiting,
        Phase::Paused,
        Phase::Stopping,
        Phase::Queued { gate: Seq(9), place: far_place() },
    ];
    let with = |(n, phase)| Run { phase, ..run(n) };
    let mut runs: Vec<_> = (1000..).zip(phases).map(with).collect();
    let purpose = Purpose::OnFailure(run_id(1));
    let begun = Begun::No;
    runs.push(Run { owner: Some(0), deadline: Some(FUTURE), begun, purpose, ..run(1100) });
    runs.push(full);
    runs.into_iter().map(Row::from).collect()
}

fn trail() -> Trail {
    let waiting = |on| At::Waiting(vec![(FREE_TEXT.to_owned(), on), (String::new(), on)]);
    let places = [
        At::Queue(gate_key("every", "line")),
        At::Ready,
        At::Driven,
        waiting(Awaited::Time),
        waiting(Awaited::Retry),
        waiting(Awaited::Event),
        waiting(Awaited::Signal),
        waiting(Awaited::Child(run_id(i64::MAX))),
        waiting(Awaited::Before(run_id(1))),
        At::Paused,
        At::Several,
    ];
    places.into_iter().map(|at| Mark(FUTURE, at)).collect::<Vec<_>>().into()
}

fn ended() -> Vec<Row> {
    let endings = [
        Ending::Completed { output: payload(PAYLOADS[1]) },
        Ending::Failed { error: fault() },
        Ending::Cancelled { reason: FREE_TEXT.to_owned(), by: Some(run_id(1)) },
        Ending::Cancelled { reason: String::new(), by: None },
    ];
    let with = |(seq, ending)| Ended {
        id: RunId { seq: Seq(seq), salt: u64::MAX },
        ws: NAME.into(),
        app: String::new(),
        workflow: NAME.to_owned(),
        version: u32::MAX,
        source: Source::Batch(EventId { seq: Seq(4), salt: u64::MAX - 1 }),
        queued_at: PAST,
        ended_at: FUTURE,
        ending,
        parent: (seq % 2 == 0).then_some(Seq(i64::MAX)),
        replay_of: (seq % 2 == 0).then(|| run_id(2)),
        lane: Seq(i64::MAX),
        purpose: if seq % 2 == 0 { Purpose::OnFailure(run_id(9)) } else { Purpose::Ordinary },
        effect_run: (seq % 2 == 0).then(|| run_id(3)),
        batch_of: (seq % 2 == 0).then(|| run_id(4)),
        batch_costs: Some(BatchCosts { events: u32::MAX, at: gates::sums() }),
        then: (seq % 3 == 0).then(|| run_id(5)),
        trail: if seq % 2 == 0 { trail() } else { Trail::default() },
        takeovers: if seq % 2 == 0 { u32::MAX } else { 0 },
    };
    (2000..).zip(endings).map(with).map(Row::from).collect()
}

fn fault() -> RunError {
    let details = Some(serde_json::json!({ "name": FREE_TEXT, "cause": { "n": 1.5 } }));
    RunError { details, ..RunError::new("HeldByAncestor", FREE_TEXT) }
}

fn steps() -> Vec<Row> {
    let kinds = [
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
    ];
    let with = |(n, kind)| Step { kind, at: FUTURE, fence: i64::MAX, ..step(i64::MAX, n) };
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h", NAME, "i"];
    let mut steps: Vec<_> = ids.into_iter().zip(kinds).map(with).collect();
    steps.push(Step { result: Err(fault()), ..step(0, "") });
    steps.push(Step { result: Ok(payload(PAYLOADS[5])), ..step(0, "ok") });
    steps.into_iter().map(Row::from).collect()
}

fn events() -> Vec<Row> {
    let kinds = [Kind::Event, Kind::Request, Kind::Cron, Kind::Invoke];
    let with = |(seq, kind)| Event {
        id: EventId { seq: Seq(seq), salt: u64::MAX },
        kind,
        name: NAME.to_owned(),
        ts: (seq % 2 == 0).then_some(PAST),
        at: FUTURE,
        ..event(seq, "null")
    };
    let payloads = (4000..).zip(PAYLOADS).map(|(seq, data)| event(seq, data));
    let ends = [
        None,
        Some(DeliveryEnd::Delivered { number: Seq(i64::MAX), at: FUTURE }),
        Some(DeliveryEnd::Cancelled { at: PAST }),
    ];
    let deferred = (5000..).zip(ends).map(|(seq, end)| {
        let delivery = Some(Delivery { at: FUTURE, end });
        let attributes = Some(payload(r#"{"user": {"id": 7e400}, "v": "1"}"#));
        Event { delivery, attributes, ..event(seq, "1") }
    });
    let all = (3000..).zip(kinds).map(with).chain(payloads).chain(deferred);
    all.map(Row::from).collect()
}

fn sessions() -> Vec<Row> {
    let session = |id: &str, version, body: &str| Session {
        ws: NAME.into(),
        app: NAME.to_owned(),
        flow: NAME.to_owned(),
        version,
        body: payload(body),
        ..session(id)
    };
    let path = Path::from_names(vec!["a.b".to_owned(), NAME.to_owned()]).ok();
    let ops = [
        SessionOp::Get { path: None },
        SessionOp::Set { path: path.clone(), value: payload(PAYLOADS[1]) },
        SessionOp::Merge { path: path.clone(), value: payload(PAYLOADS[9]) },
        SessionOp::Append { path: path.clone(), value: payload(PAYLOADS[3]) },
        SessionOp::Increment { path, by: Decimal::parse("-1.5e-400").expect("a number") },
    ];
    let staged = |(n, op): (u32, SessionOp)| Staged {
        session: SessionRef { app: String::new(), flow: NAME.to_owned(), id: NAME.to_owned() },
        op,
        version: i64::MAX,
        seen: (n % 2 == 0).then(|| payload(PAYLOADS[10])),
        ..staged(i64::MAX, n)
    };
    let rows = [session("", 0, "null"), session(NAME, i64::MAX, PAYLOADS[10])].map(Row::from);
    rows.into_iter().chain((u32::MAX - 4..=u32::MAX).zip(ops).map(staged).map(Row::from)).collect()
}

fn guards() -> Vec<Row> {
    let ws = || Arc::from(NAME);
    let bare = api_key("");
    let full = ApiKey {
        ws: ws(),
        name: NAME.to_owned(),
        read_only: true,
        expires_at: Some(FUTURE),
        used_at: Some(PAST),
        revoked_at: Some(PAST),
        ..api_key(NAME)
    };
    let outcome = Reply {
        ws: ws(),
        seq: Seq(i64::MAX),
        at: FUTURE,
        hash: NAME.to_owned(),
        answer: Some(payload(PAYLOADS[1])),
        response: Some(payload(PAYLOADS[9])),
        ..reply(NAME, 0)
    };
    vec![bare.into(), full.into(), reply("", i64::MIN).into(), outcome.into()]
}

fn small() -> Vec<Row> {
    let ws = || Arc::from(NAME);
    let text = || NAME.to_owned();
    let salted = EventId { seq: Seq(i64::MAX), salt: u64::MAX };
    vec![
        chunk(1, "", 0, 1).into(),
        Chunk { attempt: u32::MAX, n: u32::MAX, ..chunk(i64::MIN, NAME, 0, u32::MAX) }.into(),
        Schedule { next: None, last: None, ..schedule("") }.into(),
        Schedule { next: Some(PAST), last: Some(FUTURE), ..schedule(NAME) }.into(),
        Schedule { paused_at: Some(PAST), outcome: Some(occurred()), ..schedule("paused") }.into(),
        Engine { beat: i64::MAX, dead: true, lease_ms: None, ..Engine::new(0, 0) }.into(),
        Engine {
            dead: true,
            serves: vec![Seq(i64::MIN), Seq(i64::MAX)],
            ..Engine::new(u128::MAX, u32::MAX)
        }
        .into(),
        Epoch { ws: ws(), n: i64::MAX }.into(),
        Def { released: Some(i64::MAX), body: payload(PAYLOADS[9]), ..def(i64::MAX, NAME, 0) }
            .into(),
        def(1, "every", u32::MAX).into(),
        Def { assigned: Some(true), deployed: true, ..def(2, "assigned", 1) }.into(),
        Def { assigned: Some(false), ..def(3, "given", 1) }.into(),
        Item { run: Seq(i64::MAX), n: u32::MAX, event: salted }.into(),
        WaitRow {
            ws: ws(),
            name: text(),
            path: text(),
            value: (0..=255).collect(),
            run: Seq(i64::MAX),
            step: text(),
        }
        .into(),
        WaitRow {
            ws: ws(),
            name: text(),
            path: String::new(),
            value: Vec::new(),
            run: Seq(0),
            step: String::new(),
        }
        .into(),
        WaitPath { ws: ws(), name: text(), path: String::new() }.into(),
        WaitPath { ws: ws(), name: text(), path: text() }.into(),
        Signal { run: Seq(i64::MAX), name: text(), seq: Seq(i64::MAX), data: payload("1e400") }
            .into(),
        Receipt {
            seq: Seq(i64::MAX),
            ws: ws(),
            app: text(),
            workflow: text(),
            key: FREE_TEXT.to_owned(),
            event: Seq(i64::MAX),
            at: FUTURE,
            verdict: serde_json::json!({ "skip": { "running": u64::MAX, "why": FREE_TEXT } }),
        }
        .into(),
        Audit {
            seq: Seq(i64::MAX),
            at: FUTURE,
            address: Some(text()),
            operation: text(),
            subject: text(),
            before: Some(payload("1e400")),
            after: None,
            ..audit(0)
        }
        .into(),
    ]
}
