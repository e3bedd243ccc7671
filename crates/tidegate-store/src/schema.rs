//! Schema of both databases: the table of every kind of row, and the migrations.
//!
//! This is the only list of tables. From it are derived the statements that read, insert, update,
//! delete, lock and dump rows, in both dialects (`sql/derive.rs`), and the conversions between rows
//! and cells.

use serde::{Deserialize, Serialize};
use tidegate_core::{
    id::{ChoreId, EventId, RunId, Seq},
    json::Payload,
    row::{
        ApiKey, Audit, BatchCosts, Chore, Chunk, Def, Ended, Ending, Engine, Epoch, Event, Gate,
        Item, LogHead, Phase, Purpose, Rank, Receipt, Reply, Row, RowKey, RowKind, Run, RunError,
        Schedule, Session, SessionRef, Signal, Source, Staged, Step, Stream, StreamEventRow,
        StreamSnapshot, Subscription, Trail, WaitPath, WaitRow,
    },
    time::Timestamp,
};

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::migrate::Migration;
use crate::{
    StoreError,
    codec::{Cell, Cells, PAUSED, Table, WAITING, engine_text, kind, tables},
};

tables! {
    Reply(row) = "reply", [contested],
        key { ws: workspace, id: text }
        { seq: seq, at: time, hash: text, answer: maybe_payload, response: maybe_payload }
        => Reply { ws, id, seq, at, hash, answer, response };

    ApiKey(row) = "api_key", [],
        key { id: text }
        {
            ws: workspace,
            name: text,
            hash: text,
            read_only: flag,
            made_at: time,
            expires_at: maybe_time,
            used_at: maybe_time,
            revoked_at: maybe_time,
        }
        => ApiKey { id, ws, name, hash, read_only, made_at, expires_at, used_at, revoked_at };

    Chore(row) = "chore", [],
        key { seq: seq <- &row.id.seq }
        {
            salt: salt <- &row.id.salt,
            ws: workspace,
            topic: maybe_text,
            due: maybe_time,
            work: json,
        }
        => Chore { id: ChoreId { seq, salt }, ws, topic, due, work };

    Schedule(row) = "schedule", [contested],
        key { ws: workspace, app: text, workflow: text, id: text }
        { next: maybe_time, last: maybe_time, outcome: maybe_json, paused_at: maybe_time }
        => Schedule { ws, app, workflow, id, next, last, outcome, paused_at };

    Gate(row) = "gate", [contested],
        key { key: gate_key }
        {
            id: seq,
            at: time,
            due: maybe_time,
            state: json,
            event: index_int <- row.event().map(|event| event.0),
        }
        => Gate { key, id, at, due, state };

    // A run is read from its column `body` alone. All other columns are for statements and indexes.
    Run(row) = "run", [written_lock],
        key { seq: seq <- &row.id.seq }
        {
            salt: index_int <- row.id.salt.cast_signed(),
            ws: index_text <- row.ws.to_string(),
            lane: index_int <- row.lane.0,
            ready: index_int <- matches!(row.phase, Phase::Ready).then(|| row.turn().0),
            line: index_int <- queue_of(row).map(|(gate, _)| gate.0),
            tier: index_int <- queue_of(row).map_or(0, |(_, tier)| tier),
            order_at: index_int <- rank_of(row).map_or(0, |rank| rank.at.micros()),
            order_seq: index_int <- rank_of(row).map_or(0, |rank| rank.seq.0),
            due: index_int <- row.due().map(Timestamp::micros),
            owner: index_text <- row.owner.map(engine_text),
            fence: index_int <- row.fence,
            body: json <- &**row,
            event_seq: index_int <- row.source.first().seq.0,
            past: index_int <- row.past().map(|past| past.0),
            parked: index_text <- parked(row).map(str::to_owned),
            listens: index_int <- row.listens(),
        }
        => checked_run(seq, body)?;

    Session(row) = "session", [contested],
        key { ws: workspace, app: text, flow: text, id: text }
        { version: int, body: payload }
        => Session { ws, app, flow, id, version, body };

    Engine(row) = "engine", [contested],
        key { id: engine }
        { beat: int, dead: flag, serves: json, lease_ms: maybe_small }
        => Engine { id, beat, dead, serves, lease_ms };

    Stream(row) = "stream", [contested],
        key { ws: workspace, name: text }
        { id: seq, head: int, closed: flag }
        => Stream { ws, name, id, head, closed };

    Subscription(row) = "sub", [contested],
        key { ws: workspace, reaction: text, stream: text }
        {
            work: index_int <- has_work(row).then(|| row.since.micros()),
            at: int,
            want: int,
            owner: maybe_engine,
            fence: int,
            until: maybe_time,
            due: maybe_time,
            since: time,
            failures: small,
            claims: small,
            blocked: maybe_json,
            log: seq,
            error: maybe_json,
        }
        => Subscription {
            ws, reaction, stream, at, want, owner, fence, until, due, since, failures, claims,
            blocked, log, error,
        };

    LogHead(row) = "log_head", [contested],
        key { ws: workspace }
        { pos: int }
        => LogHead { ws, pos };

    Epoch(row) = "epoch", [contested, latched],
        key { ws: workspace }
        { n: int }
        => Epoch { ws, n };

    Def(row) = "def", [latched],
        key { lane: seq }
        {
            ws: workspace,
            app: text,
            name: text,
            version: small,
            body: payload,
            released: maybe_int,
            assigned: maybe_flag,
            deployed: flag,
        }
        => Def { lane, ws, app, name, version, body, released, assigned, deployed };

    Event(row) = "event", [],
        key { seq: seq <- &row.id.seq }
        {
            salt: salt <- &row.id.salt,
            ws: workspace,
            kind: word,
            name: text,
            at: time,
            ts: maybe_time,
            data: payload,
            delivery: maybe_json,
            attributes: maybe_payload,
        }
        => Event {
            id: EventId { seq, salt }, ws, kind, name, at, ts, data, delivery, attributes
        };

    // The columns of the state and the first event are for indexes: the body has both, too.
    Ended(row) = "ended", [],
        key { seq: seq <- &row.id.seq }
        {
            salt: salt <- &row.id.salt,
            ws: workspace,
            app: text,
            workflow: text,
            version: small,
            state: index_text <- row.ending.state().to_owned(),
            queued_at: time,
            ended_at: time,
            event_seq: index_int <- row.source.first().seq.0,
            body: json <- &EndedBody::of(row),
            lane: seq,
        }
        => {
            let body: EndedBody = body;
            Ended {
                id: RunId { seq, salt },
                ws,
                app,
                workflow,
                version,
                source: body.source,
                queued_at,
                ended_at,
                ending: body.ending,
                parent: body.parent,
                then: body.then,
                replay_of: body.replay_of,
                lane,
                purpose: body.purpose,
                effect_run: body.effect_run,
                batch_of: body.batch_of,
                batch_costs: body.batch_costs,
                trail: body.trail,
                takeovers: body.takeovers,
            }
        };

    Step(row) = "step", [],
        key { run: seq, id: text }
        {
            kind: word,
            fence: int,
            at: time,
            ok: flag <- &row.result.is_ok(),
            out: owned_text <- match &row.result {
                Ok(output) => output.as_str().to_owned(),
                Err(error) => kind::json_text(error),
            },
            seq: seq,
        }
        => Step { run, id, kind, fence, at, result: step_result(ok, out)?, seq };

    Item(row) = "item", [],
        key { run: seq, n: small }
        { event_seq: seq <- &row.event.seq, event_salt: salt <- &row.event.salt }
        => Item { run, n, event: EventId { seq: event_seq, salt: event_salt } };

    Wait(row) = "wait", [],
        key { ws: workspace, name: text, path: text, value: bytes, run: seq, step: text }
        {}
        => WaitRow { ws, name, path, value, run, step };

    WaitPath(row) = "wait_path", [contested],
        key { ws: workspace, name: text, path: text }
        {}
        => WaitPath { ws, name, path };

    Signal(row) = "signal", [],
        key { run: seq, name: text, seq: seq }
        { data: payload }
        => Signal { run, name, seq, data };

    Receipt(row) = "receipt", [],
        key { seq: seq }
        {
            ws: workspace,
            app: text,
            workflow: text,
            key: json,
            event: seq,
            at: time,
            verdict: json,
        }
        => Receipt { seq, ws, app, workflow, key, event, at, verdict };

    StreamEventRow(row) = "log", [],
        key { stream: seq, version: int }
        {
            ws: workspace,
            pos: int,
            seq: seq <- &row.id.seq,
            salt: salt <- &row.id.salt,
            name: text,
            at: time,
            data: payload,
            meta: payload,
        }
        => StreamEventRow {
            stream, version, ws, pos, id: EventId { seq, salt }, name, at, data, meta,
        };

    Chunk(row) = "chunk", [],
        key { run: seq, step: text, attempt: small, n: small }
        { seq: small, data: payload }
        => Chunk { run, step, attempt, n, seq, data };

    Staged(row) = "staged", [],
        key { run: seq, n: small }
        {
            app: text <- &row.session.app,
            flow: text <- &row.session.flow,
            id: text <- &row.session.id,
            op: json,
            version: int,
            seen: maybe_payload,
        }
        => Staged { run, n, session: SessionRef { app, flow, id }, op, version, seen };

    StreamSnapshot(row) = "snapshot", [],
        key { stream: seq, kind: text }
        { version: int, body: payload }
        => StreamSnapshot { stream, kind, version, body };

    Audit(row) = "audit", [],
        key { seq: seq }
        {
            ws: workspace,
            at: time,
            author: maybe_text,
            address: maybe_text,
            operation: text,
            subject: text,
            before: maybe_payload,
            after: maybe_payload,
        }
        => Audit { seq, ws, at, author, address, operation, subject, before, after };
}

/// Lists the migrations of a dialect, in order: the files are in `sql/<dialect>/migrations`.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
macro_rules! migrations {
    ($dialect:literal) => {
        migrations!(
            $dialect,
            "0001_init"
            "0002_lease"
            "0003_session"
            "0004_runs"
            "0005_chore"
            "0006_serve"
            "0007_schedule"
            "0008_chunk"
            "0009_retention"
            "0010_snapshot"
            "0011_observe"
            "0012_guard"
            "0013_pause"
            "0014_tx_token"
            "0015_assigned"
            "0016_lease_length"
            "0017_window"
            "0018_turns"
            "0019_audit"
            "0020_delivery"
            "0021_attributes_and_listeners"
        )
    };
    ($dialect:literal, $($file:literal)+) => {
        &[$(Migration::of(
            $file,
            include_str!(concat!("../sql/", $dialect, "/migrations/", $file, ".sql")),
        )),+]
    };
}

/// Migrations of SQLite.
#[cfg(feature = "sqlite")]
pub(crate) const SQLITE_MIGRATIONS: &[Migration] = migrations!("sqlite");

/// Migrations of PostgreSQL.
#[cfg(feature = "postgres")]
pub(crate) const POSTGRES_MIGRATIONS: &[Migration] = migrations!("postgres");

/// Returns the gate in whose queue a run is, and the run's tier in that queue.
fn queue_of(run: &Run) -> Option<(Seq, i64)> {
    if let Phase::Queued { gate, place } = run.phase { Some((gate, place.tier)) } else { None }
}

/// Returns the rank by which a ready or queued run is ordered.
fn rank_of(run: &Run) -> Option<Rank> {
    match run.phase {
        Phase::Ready => Some(run.rank),
        Phase::Queued { place, .. } => Some(place.rank),
        Phase::Driven | Phase::Waiting | Phase::Paused | Phase::Stopping => None,
    }
}

/// Returns the value of the column `parked` of a run.
fn parked(run: &Run) -> Option<&'static str> {
    match run.phase {
        Phase::Waiting => Some(WAITING),
        Phase::Paused => Some(PAUSED),
        Phase::Queued { .. } | Phase::Ready | Phase::Driven | Phase::Stopping => None,
    }
}

/// Checks that a run's body has the number of its row.
fn checked_run(seq: Seq, body: Run) -> Result<Run, StoreError> {
    if body.id.seq == seq {
        return Ok(body);
    }
    let reason = format!("run {seq} has the body of run {}", body.id.seq);
    Err(StoreError::Corrupt(format!("run.body: {reason}").into()))
}

fn has_work(subscription: &Subscription) -> bool {
    subscription.want > subscription.at && subscription.blocked.is_none()
}

/// Parses the output of a step, or its error.
fn step_result(ok: bool, out: String) -> Result<Result<Payload, RunError>, StoreError> {
    let corrupt = |error: String| StoreError::Corrupt(format!("step.out: {error}").into());
    if ok {
        return kind::parse_payload(out).map(Ok).map_err(corrupt);
    }
    serde_json::from_str(&out).map(Err).map_err(|error| corrupt(error.to_string()))
}

/// Fields of an ended run that are stored in its body, not in columns of their own.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndedBody {
    source: Source,
    ending: Ending,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    then: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replay_of: Option<RunId>,
    #[serde(default)]
    purpose: Purpose,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_of: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_costs: Option<BatchCosts>,
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    trail: Trail,
    #[serde(default, skip_serializing_if = "is_zero")]
    takeovers: u32,
}

impl EndedBody {
    fn of(row: &Ended) -> Self {
        Self {
            source: row.source,
            ending: row.ending.clone(),
            parent: row.parent,
            then: row.then,
            replay_of: row.replay_of,
            purpose: row.purpose,
            effect_run: row.effect_run,
            batch_of: row.batch_of,
            batch_costs: row.batch_costs.clone(),
            trail: row.trail.clone(),
            takeovers: row.takeovers,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
