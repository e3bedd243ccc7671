//! Conversion of a row to cells.

use serde::Serialize;
use tidegate_core::{
    id::Seq,
    json::Payload,
    row::{
        ApiKey, Chore, Def, Ended, Event, Gate, Phase, Receipt, Reply, Row, RowKey, Run, Session,
        Staged, Step, StreamEventRow, Subscription,
    },
    time::Timestamp,
};

use super::{Cell, PAUSED, WAITING, engine_text, read::EndedBody};

/// Returns a row's cells, in the order of its table's columns.
pub fn cells(row: &Row) -> Vec<Cell> {
    match row {
        Row::Reply(row) => reply(row),
        Row::ApiKey(row) => api_key(row),
        Row::Chore(row) => chore(row),
        Row::Schedule(row) => vec![
            text(&*row.ws),
            text(&*row.app),
            text(&*row.workflow),
            text(&*row.id),
            maybe_at(row.next),
            maybe_at(row.last),
            row.outcome.as_ref().map_or(Cell::Text(None), json),
            maybe_at(row.paused_at),
        ],
        Row::Gate(row) => gate(row),
        Row::Run(row) => run(row),
        Row::Session(row) => session(row),
        Row::Engine(row) => vec![
            text(engine_text(row.id)),
            int(row.beat),
            int(i64::from(row.dead)),
            json(&row.serves),
            Cell::Int(row.lease_ms.map(i64::from)),
        ],
        Row::Stream(row) => vec![
            text(&*row.ws),
            text(&*row.name),
            seq(row.id),
            int(row.head),
            int(i64::from(row.closed)),
        ],
        Row::Subscription(row) => sub(row),
        Row::LogHead(row) => vec![text(&*row.ws), int(row.pos)],
        Row::Epoch(row) => vec![text(&*row.ws), int(row.n)],
        Row::Def(row) => def(row),
        Row::Event(row) => event(row),
        Row::Ended(row) => ended(row),
        Row::Step(row) => step(row),
        Row::Item(row) => {
            vec![seq(row.run), int(row.n.into()), seq(row.event.seq), salt(row.event.salt)]
        }
        Row::Wait(row) => vec![
            text(&*row.ws),
            text(&*row.name),
            text(&*row.path),
            Cell::Bytes(Some(row.value.clone())),
            seq(row.run),
            text(&*row.step),
        ],
        Row::WaitPath(row) => vec![text(&*row.ws), text(&*row.name), text(&*row.path)],
        Row::Signal(row) => {
            vec![seq(row.run), text(&*row.name), seq(row.seq), text(row.data.as_str())]
        }
        Row::Receipt(row) => receipt(row),
        Row::StreamEventRow(row) => logged(row),
        Row::Chunk(row) => vec![
            seq(row.run),
            text(&*row.step),
            int(row.attempt.into()),
            int(row.n.into()),
            int(row.seq.into()),
            text(row.data.as_str()),
        ],
        Row::Staged(row) => staged(row),
        Row::StreamSnapshot(row) => {
            vec![seq(row.stream), text(&*row.kind), int(row.version), text(row.body.as_str())]
        }
    }
}

/// Returns the cells of a row's primary key, in the order of its table's columns.
pub fn key_cells(key: &RowKey) -> Vec<Cell> {
    match key {
        RowKey::Schedule(ws, app, workflow, id) => {
            vec![text(&**ws), text(&**app), text(&**workflow), text(&**id)]
        }
        RowKey::Reply(ws, id) => vec![text(&**ws), text(&**id)],
        RowKey::ApiKey(id) => vec![text(&**id)],
        RowKey::Gate(key) => vec![Cell::Bytes(Some(key.as_bytes().to_vec()))],
        RowKey::Chore(number)
        | RowKey::Run(number)
        | RowKey::Def(number)
        | RowKey::Event(number)
        | RowKey::Ended(number)
        | RowKey::Receipt(number) => vec![seq(*number)],
        RowKey::Session(ws, app, flow, id) => {
            vec![text(&**ws), text(&**app), text(&**flow), text(&**id)]
        }
        RowKey::Engine(id) => vec![text(engine_text(*id))],
        RowKey::Stream(ws, name) => vec![text(&**ws), text(&**name)],
        RowKey::Subscription(ws, reaction, stream) => {
            vec![text(&**ws), text(&**reaction), text(&**stream)]
        }
        RowKey::LogHead(ws) | RowKey::Epoch(ws) => vec![text(&**ws)],
        RowKey::Step(run, id) => vec![seq(*run), text(&**id)],
        RowKey::Item(run, n) | RowKey::Staged(run, n) => vec![seq(*run), int((*n).into())],
        RowKey::Wait(ws, name, path, value, run, step) => vec![
            text(&**ws),
            text(&**name),
            text(&**path),
            Cell::Bytes(Some(value.clone())),
            seq(*run),
            text(&**step),
        ],
        RowKey::WaitPath(ws, name, path) => vec![text(&**ws), text(&**name), text(&**path)],
        RowKey::Signal(run, name, number) => vec![seq(*run), text(&**name), seq(*number)],
        RowKey::StreamEventRow(stream, version) => vec![seq(*stream), int(*version)],
        RowKey::StreamSnapshot(stream, kind) => vec![seq(*stream), text(&**kind)],
        RowKey::Chunk(run, step, attempt, n) => {
            vec![seq(*run), text(&**step), int((*attempt).into()), int((*n).into())]
        }
    }
}

fn reply(row: &Reply) -> Vec<Cell> {
    let maybe = |payload: &Option<Payload>| {
        Cell::Text(payload.as_ref().map(|payload| payload.as_str().to_owned()))
    };
    vec![
        text(&*row.ws),
        text(&*row.id),
        seq(row.seq),
        at(row.at),
        text(&*row.hash),
        maybe(&row.answer),
        maybe(&row.response),
    ]
}

fn api_key(row: &ApiKey) -> Vec<Cell> {
    vec![
        text(&*row.id),
        text(&*row.ws),
        text(&*row.name),
        text(&*row.hash),
        int(i64::from(row.read_only)),
        at(row.made_at),
        maybe_at(row.expires_at),
        maybe_at(row.used_at),
        maybe_at(row.revoked_at),
    ]
}

fn chore(row: &Chore) -> Vec<Cell> {
    vec![
        seq(row.id.seq),
        salt(row.id.salt),
        text(&*row.ws),
        Cell::Text(row.topic.clone()),
        maybe_at(row.due),
        json(&row.work),
    ]
}

fn gate(row: &Gate) -> Vec<Cell> {
    vec![
        Cell::Bytes(Some(row.key.as_bytes().to_vec())),
        seq(row.id),
        at(row.at),
        maybe_at(row.due),
        json(&row.state),
        Cell::Int(row.event().map(|event| event.0)),
    ]
}

fn run(row: &Run) -> Vec<Cell> {
    let (ready, line, tier, rank) = match row.phase {
        Phase::Ready => (Some(row.turn().0), None, 0, Some(row.rank)),
        Phase::Queued { gate, place } => (None, Some(gate.0), place.tier, Some(place.rank)),
        Phase::Driven | Phase::Waiting | Phase::Paused | Phase::Stopping => (None, None, 0, None),
    };
    let parked = match row.phase {
        Phase::Waiting => Some(WAITING),
        Phase::Paused => Some(PAUSED),
        Phase::Queued { .. } | Phase::Ready | Phase::Driven | Phase::Stopping => None,
    };
    vec![
        seq(row.id.seq),
        salt(row.id.salt),
        text(&*row.ws),
        seq(row.lane),
        Cell::Int(ready),
        Cell::Int(line),
        int(tier),
        int(rank.map_or(0, |rank| rank.at.micros())),
        int(rank.map_or(0, |rank| rank.seq.0)),
        maybe_at(row.due()),
        Cell::Text(row.owner.map(engine_text)),
        int(row.fence),
        json(row),
        seq(row.source.first().seq),
        Cell::Int(row.past().map(|past| past.0)),
        Cell::Text(parked.map(str::to_owned)),
    ]
}

fn session(row: &Session) -> Vec<Cell> {
    vec![
        text(&*row.ws),
        text(&*row.app),
        text(&*row.flow),
        text(&*row.id),
        int(row.version),
        text(row.body.as_str()),
    ]
}

fn staged(row: &Staged) -> Vec<Cell> {
    vec![
        seq(row.run),
        int(row.n.into()),
        text(&*row.session.app),
        text(&*row.session.flow),
        text(&*row.session.id),
        json(&row.op),
        int(row.version),
        Cell::Text(row.seen.as_ref().map(|seen| seen.as_str().to_owned())),
    ]
}

fn sub(row: &Subscription) -> Vec<Cell> {
    let has_work = row.want > row.at && row.blocked.is_none();
    vec![
        text(&*row.ws),
        text(&*row.reaction),
        text(&*row.stream),
        maybe_at(has_work.then_some(row.since)),
        int(row.at),
        int(row.want),
        Cell::Text(row.owner.map(engine_text)),
        int(row.fence),
        maybe_at(row.until),
        maybe_at(row.due),
        at(row.since),
        int(row.failures.into()),
        int(row.claims.into()),
        row.blocked.as_ref().map_or(Cell::Text(None), json),
        seq(row.log),
        row.error.as_ref().map_or(Cell::Text(None), json),
    ]
}

fn def(row: &Def) -> Vec<Cell> {
    vec![
        seq(row.lane),
        text(&*row.ws),
        text(&*row.app),
        text(&*row.name),
        int(row.version.into()),
        text(row.body.as_str()),
        Cell::Int(row.released),
        Cell::Int(row.assigned.map(i64::from)),
        int(row.deployed.into()),
    ]
}

fn event(row: &Event) -> Vec<Cell> {
    vec![
        seq(row.id.seq),
        salt(row.id.salt),
        text(&*row.ws),
        word(&row.kind),
        text(&*row.name),
        at(row.at),
        maybe_at(row.ts),
        text(row.data.as_str()),
    ]
}

fn ended(row: &Ended) -> Vec<Cell> {
    vec![
        seq(row.id.seq),
        salt(row.id.salt),
        text(&*row.ws),
        text(&*row.app),
        text(&*row.workflow),
        int(row.version.into()),
        text(row.ending.state()),
        at(row.queued_at),
        at(row.ended_at),
        seq(row.source.first().seq),
        json(&EndedBody {
            source: row.source,
            ending: row.ending.clone(),
            parent: row.parent,
            then: row.then,
            replay_of: row.replay_of,
            purpose: row.purpose,
            effect_run: row.effect_run,
            batch_of: row.batch_of,
            trail: row.trail.clone(),
            takeovers: row.takeovers,
        }),
        seq(row.lane),
    ]
}

fn step(row: &Step) -> Vec<Cell> {
    vec![
        seq(row.run),
        text(&*row.id),
        word(&row.kind),
        int(row.fence),
        at(row.at),
        int(i64::from(row.result.is_ok())),
        match &row.result {
            Ok(out) => text(out.as_str()),
            Err(fault) => json(fault),
        },
        seq(row.seq),
    ]
}

fn receipt(row: &Receipt) -> Vec<Cell> {
    vec![
        seq(row.seq),
        text(&*row.ws),
        text(&*row.app),
        text(&*row.workflow),
        json(&row.key),
        seq(row.event),
        at(row.at),
        json(&row.verdict),
    ]
}

fn logged(row: &StreamEventRow) -> Vec<Cell> {
    vec![
        seq(row.stream),
        int(row.version),
        text(&*row.ws),
        int(row.pos),
        seq(row.id.seq),
        salt(row.id.salt),
        text(&*row.name),
        at(row.at),
        text(row.data.as_str()),
        text(row.meta.as_str()),
    ]
}

fn int(number: i64) -> Cell {
    Cell::Int(Some(number))
}

fn seq(number: Seq) -> Cell {
    int(number.0)
}

fn salt(salt: u64) -> Cell {
    int(salt.cast_signed())
}

fn at(moment: Timestamp) -> Cell {
    int(moment.micros())
}

fn maybe_at(moment: Option<Timestamp>) -> Cell {
    Cell::Int(moment.map(Timestamp::micros))
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(Some(text.into()))
}

fn json<T: Serialize>(value: &T) -> Cell {
    let text = serde_json::to_string(value).expect("rows have string keys and finite numbers only");
    Cell::Text(Some(text))
}

/// Writes an enum without fields as its bare name.
fn word<T: Serialize>(value: &T) -> Cell {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Cell::Text(Some(word)),
        other => panic!("an enum without fields is written as a string, got {other:?}"),
    }
}
