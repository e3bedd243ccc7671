//! Generator of the databases: fills an empty store with rows of every kind.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    CloseProgress, Closing, Engine, NewEvent, Request, RunId, ScheduleId, events, lease::Leases,
    new_event, new_request, testing::TestHarness,
};
use tidegate_core::{
    access::AccessCommand,
    audit::Author,
    command::Command,
    definition::Definition,
    flow::Verdict,
    idempotency_key::IdempotentRequest,
    json::Payload,
    row::{ApiKey, BulkFilter, BulkWhat, SessionOp, SessionRef},
    time::Timestamp,
};
use tidegate_store::commit;

use crate::{
    code::{Account, HOUR, Life, Moved, serve},
    inputs, limits,
};

/// Time at which the generator starts.
pub(crate) const BEGINS: &str = "2026-02-02T00:10:00Z";

/// Time that the generator takes: an hourly schedule has had one occurrence, and the second is
/// still to come.
pub(crate) const TAKES: Duration = Duration::from_secs(65 * 60);

/// Name and holder of the lease.
pub(crate) const LEASE: [&str; 2] = ["report", "one"];

/// Fills the store of a harness, then stops as a crash would: driven runs stay leased.
pub(crate) async fn fill(harness: &TestHarness, leases: &dyn Leases) {
    let engine = harness.engine().lease_ttl(Duration::from_secs(60));
    let engine = serve(engine.poll_interval(Duration::from_secs(30)), Life::Made);
    let engine = engine.start().await.unwrap();
    // Both schedules have their first occurrences. Then one of them is paused.
    harness.advance(Duration::from_secs(55 * 60)).await;
    engine.pause_schedule(held()).await.unwrap();
    ended(harness, &engine).await;
    waiting(harness, &engine).await;
    controlled(&engine).await;
    limits::fill(harness, &engine).await;
    inputs::fill(harness, &engine).await;
    harness.advance(Duration::from_secs(60)).await;
    requests(harness, &engine).await;
    streams(&engine).await;
    harness.advance(Duration::from_secs(60)).await;
    around(harness, &engine, leases).await;
    other_workspace(&engine.in_workspace("other")).await;
    harness.advance(TAKES.saturating_sub(Duration::from_secs(57 * 60))).await;
    harness.crash(&engine).await;
    unserved(harness).await;
}

/// Executes a command without an engine.
async fn decide(harness: &TestHarness, salt: u64, command: Command) {
    for answer in commit(&**harness.store(), vec![(command, salt)]).await.unwrap() {
        answer.unwrap();
    }
}

/// Adds rows that no engine handles any more: a ready run, a cancelled run whose worker does not
/// answer, a bulk operation that has not started, and a pause that has taken no place back.
async fn unserved(harness: &TestHarness) {
    let ws = || "default".into();
    let events = vec![new_event("completing", json!({ "n": 4 })).unwrap()];
    decide(harness, 101, Command::Post { ws: ws(), events }).await;
    let run = harness.runs("stopped").await[0].id;
    let reason = "stopped from outside".to_owned();
    decide(harness, 102, Command::Cancel { ws: ws(), run, reason }).await;
    let filter = BulkFilter { workflow: Some("swept".to_owned()), ..BulkFilter::default() };
    let what = BulkWhat::Cancel { reason: "swept".to_owned() };
    decide(harness, 103, Command::Bulk { ws: ws(), what, filter }).await;
    let events = vec![new_event("resting", json!({ "n": 1 })).unwrap()];
    decide(harness, 104, Command::Post { ws: ws(), events }).await;
    let (change, by) = (Box::new(limits::rest()), Author::default());
    decide(harness, 105, Command::Override { ws: ws(), change, by, if_epoch: None }).await;
}

/// Posts events of one name, and returns the verdict of each.
async fn post(engine: &Engine, name: &str, data: &[Value]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for data in data {
        let posted = engine.send(name, data).await.unwrap();
        verdicts.extend(posted.runs.into_iter().map(|outcome| outcome.verdict));
    }
    verdicts
}

/// Posts events of one name, and checks the outcome of each.
pub(crate) async fn expect(
    engine: &Engine,
    name: &str,
    data: &[Value],
    outcomes: &[&str],
) -> Vec<RunId> {
    let verdicts = post(engine, name, data).await;
    assert_eq!(verdicts.iter().map(Verdict::outcome).collect::<Vec<_>>(), outcomes, "{name}");
    verdicts.iter().filter_map(Verdict::run).collect()
}

async fn start(engine: &Engine, name: &str) -> RunId {
    expect(engine, name, &[json!({ "n": 1 })], &["started"]).await[0]
}

/// Returns the id of the schedule that is paused.
pub(crate) fn held() -> ScheduleId {
    ScheduleId::new("default", "held", "30 * * * * Europe/Berlin")
}

/// Creates a request in a session or of a user.
pub(crate) fn call(flow: &str, action: &str, session: &str, input: Value) -> Request {
    let request = new_request(flow, action, input).unwrap();
    Request { session: Some(session.to_owned()), user: Some("ann".to_owned()), ..request }
}

/// Creates a request with an idempotency key.
pub(crate) fn keyed(id: &str) -> IdempotentRequest {
    IdempotentRequest { ws: "default".into(), id: id.to_owned(), hash: "ab".repeat(32) }
}

/// Creates an event with a dedupe id.
pub(crate) fn deduped() -> NewEvent {
    let event = new_event("completing", json!({ "n": 2 })).unwrap();
    NewEvent {
        dedupe_id: Some("order-2".to_owned()),
        ts: Timestamp::parse_rfc3339(BEGINS),
        ..event
    }
}

/// Makes runs that have completed, failed or been cancelled, and replays and retries of them.
async fn ended(harness: &TestHarness, engine: &Engine) {
    let completed = start(engine, "completing").await;
    engine.send_all(vec![deduped()]).await.unwrap();
    let failed = start(engine, "failing").await;
    start(engine, "cancelled").await;
    harness.advance(Duration::from_secs(60)).await;
    engine.replay(failed).await.unwrap();
    engine.retry_from(completed, "work").await.unwrap();
    let filter = BulkFilter { workflow: Some("cancelled".to_owned()), ..BulkFilter::default() };
    engine.bulk(BulkWhat::Cancel { reason: "not wanted".to_owned() }, filter).await.unwrap();
}

/// Makes runs that wait, and one that is driven.
async fn waiting(harness: &TestHarness, engine: &Engine) {
    let plain = ["sleeping", "awaiting", "parent", "halfway", "retrying", "undone"];
    for name in plain.into_iter().chain(["stopped", "swept"]) {
        start(engine, name).await;
    }
    let signalled = start(engine, "signalled").await;
    let paused = start(engine, "paused").await;
    harness.settle().await;
    engine.signal(signalled, "earlier", json!({ "by": "ann" })).await.unwrap();
    engine.pause(paused).await.unwrap();
}

/// Makes runs that wait for a slot or a turn, open windows and buffers, and events without a run.
async fn controlled(engine: &Engine) {
    let of = |account: &str, n: u32| json!({ "account": account, "n": n });
    let accounts = [of("a", 1), of("a", 2), of("b", 3), of("c", 4)];
    expect(engine, "limited", &accounts, &["started", "queued", "started", "queued"]).await;
    let both = [json!({ "n": 1 }), json!({ "n": 2 })];
    expect(engine, "spanning", &both, &["started", "queued"]).await;
    let turns = [of("a", 1), of("a", 2), of("a", 3)];
    expect(engine, "throttled", &turns, &["started", "queued", "queued"]).await;
    expect(engine, "metered", &both, &["started", "dropped"]).await;
    let edits = [1, 2, 3].map(|n| json!({ "document": 7, "n": n }));
    expect(engine, "debounced", &edits, &["coalesced"; 3]).await;
    let full = [1, 2, 3].map(|n| json!({ "kind": "full", "n": n }));
    let open = [4, 5].map(|n| json!({ "kind": 1.5, "n": n }));
    post(engine, "batched", &full).await;
    expect(engine, "batched", &open, &["buffered"; 2]).await;
    expect(engine, "single", &[of("a", 1), of("a", 2)], &["started", "skipped"]).await;
    expect(engine, "replacing", &both, &["started", "replaced"]).await;
    let same = [json!({ "id": "x", "n": 1 }), json!({ "id": "x", "n": 2 })];
    expect(engine, "once", &same, &["started", "deduped"]).await;
    let tenant = |n: u32| [json!({ "tenant": "t", "n": n })];
    engine.release("default", "handed", 1).await.unwrap();
    expect(engine, "handed", &tenant(1), &["started"]).await;
    engine.release("default", "handed", 2).await.unwrap();
    expect(engine, "handed", &tenant(2), &["queued"]).await;
}

/// Makes sessions with state, and requests that run, wait, are merged, staged or refused.
async fn requests(harness: &TestHarness, engine: &Engine) {
    let send = async |flow: &str, action: &str, session: &str, input: Value| {
        let outcome = engine.dispatch(call(flow, action, session, input)).await.unwrap();
        harness.settle().await;
        outcome.verdict.outcome()
    };
    assert_eq!(send("chat", "append", "s1", json!({ "line": "hello" })).await, "started");
    assert_eq!(send("chat", "append", "s1", json!({ "line": "who is there?" })).await, "started");
    assert_eq!(send("chat", "respond", "s1", json!({ "n": 1 })).await, "started");
    assert_eq!(send("chat", "respond", "s1", json!({ "n": 2 })).await, "queued");
    assert_eq!(send("chat", "index", "s1", json!({ "n": 1 })).await, "coalesced");
    assert_eq!(send("chat", "index", "s1", json!({ "n": 2 })).await, "coalesced");
    assert_eq!(send("desk", "edit", "s1", json!({ "text": "one" })).await, "started");
    assert_eq!(send("desk", "edit", "s1", json!({ "text": "two" })).await, "replaced");
    let first = call("desk", "sum", "s1", json!({ "n": 1 }));
    let then = call("chat", "append", "s2", json!({ "line": "afterwards" }));
    engine.dispatch_then(first, then).await.unwrap();
    harness.settle().await;
    assert_eq!(send("desk", "sum", "s2", json!({ "n": 2 })).await, "skipped");
}

/// Makes streams with events and a snapshot, a closed stream, and positions of reactions.
async fn streams(engine: &Engine) {
    for amount in [5, 7, 11] {
        let deposit = |_: &Account| Ok::<_, ()>(vec![Moved::Deposited { amount }]);
        engine.stream::<Account>("account-1").act(deposit).await.unwrap();
    }
    let withdraw = |_: &Account| Ok::<_, ()>(vec![Moved::Withdrawn { amount: 3 }]);
    engine.stream::<Account>("account-1").act(withdraw).await.unwrap();
    let opened = events::new("Opened", json!({})).unwrap();
    engine.streams().commit("ledger-1", vec![opened], None).await.unwrap();
    engine.close(&closing()).await.unwrap();
}

/// Options of a close, which first has to wait for the reactions that follow all streams.
fn closing() -> Closing {
    Closing::new("ledger-1").meta(json!({ "by": "ann" }))
}

/// Makes API keys, stored answers of idempotency keys, a lease, a session that was written from
/// outside of a run, and a definition that no program serves.
async fn around(harness: &TestHarness, engine: &Engine, leases: &dyn Leases) {
    let closed = engine.close(&closing()).await.unwrap();
    assert_eq!(closed, CloseProgress::Closed { guard: 1 });
    let key = |id: &str, read_only: bool| ApiKey {
        id: id.to_owned(),
        ws: "default".into(),
        name: format!("key {id}"),
        hash: "cd".repeat(32),
        read_only,
        made_at: harness.now(),
        expires_at: read_only.then(|| harness.now().plus_ms(1_000_000_000)),
        used_at: None,
        revoked_at: None,
    };
    let used = AccessCommand::Used { id: "k1".to_owned(), at: harness.now() };
    let revoke = AccessCommand::Revoke { ws: "default".into(), id: "k2".to_owned() };
    let made = ["k1", "k2"].map(|id| AccessCommand::Make(Box::new(key(id, id == "k2"))));
    let access = made.into_iter().chain([used, revoke]).map(|command| Command::Access { command });
    let called = json!({ "name": "called", "url": "http://127.0.0.1:9/called" });
    let workflow = Box::new(Definition::parse(&called).unwrap().value);
    let register = Command::Register { ws: "default".into(), workflow, dev: false };
    for (salt, command) in (1..).zip(access.chain([register])) {
        decide(harness, salt, command).await;
    }
    let (repeated, once) = engine.once(keyed("POST /v1/events a"));
    let posted = repeated.send("completing", json!({ "n": 3 })).await.unwrap();
    let response = json!({ "status": 202, "events": posted.runs.len() });
    engine.keep(&once, Payload::from_value(&response)).await.unwrap();
    let (repeated, _) = engine.once(keyed("POST /v1/dispatch b"));
    repeated.dispatch(call("chat", "append", "s3", json!({ "line": "once" }))).await.unwrap();
    leases.acquire(LEASE[0], LEASE[1], HOUR).await.unwrap().acquired().expect("it is free");
    let (app, flow, id) = ("default".to_owned(), "chat".to_owned(), "s4".to_owned());
    let value = Payload::from_value(&json!({ "from": "outside" }));
    let set = SessionOp::Set { path: None, value };
    engine.change_session(SessionRef { app, flow, id }, set, None).await.unwrap();
}

/// Makes runs of the same workflows in another workspace.
async fn other_workspace(engine: &Engine) {
    start(engine, "sleeping").await;
    let both = [1, 2].map(|n| json!({ "account": "a", "n": n }));
    expect(engine, "limited", &both, &["started", "queued"]).await;
    expect(engine, "single", &both[..1], &["started"]).await;
    let append = call("chat", "append", "s1", json!({ "line": "elsewhere" }));
    engine.dispatch(append).await.unwrap();
    let deposit = |_: &Account| Ok::<_, ()>(vec![Moved::Deposited { amount: 1 }]);
    engine.stream::<Account>("account-1").act(deposit).await.unwrap();
}
