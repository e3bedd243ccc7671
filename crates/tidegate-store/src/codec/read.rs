//! Conversion of cells to a row.

use std::{sync::Arc, vec};

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IntoDeserializer, value},
};
use tidegate_core::{
    id::{ChoreId, EventId, RunId, Seq},
    json::Payload,
    row::{
        ApiKey, Chore, Chunk, Def, Ended, Ending, Engine, EngineId, Epoch, Event, Gate, GateKey,
        Item, LogHead, Purpose, Receipt, Reply, Row, Run, Schedule, Session, SessionRef, Signal,
        Source, Staged, Step, Stream, StreamEventRow, StreamSnapshot, Subscription, Trail,
        WaitPath, WaitRow, Workspace,
    },
    time::Timestamp,
};

use super::{Cell, Table};
use crate::StoreError;

/// Returns the row for a table's cells, which are in the order of its columns.
pub fn row(table: Table, cells: Vec<Cell>) -> Result<Row, StoreError> {
    let mut from = Cells { table, at: 0, rest: cells.into_iter() };
    let row = read(&mut from)?;
    match from.rest.next() {
        None => Ok(row),
        Some(_) => {
            Err(StoreError::Corrupt(format!("{} has too many columns", table.name()).into()))
        }
    }
}

/// Fields of an ended run that have no column of their own.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndedBody {
    pub(super) source: Source,
    pub(super) ending: Ending,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) then: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replay_of: Option<RunId>,
    #[serde(default)]
    pub(super) purpose: Purpose,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) effect_run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) batch_of: Option<RunId>,
    #[serde(default, skip_serializing_if = "Trail::is_empty")]
    pub(super) trail: Trail,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) takeovers: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn read(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(match from.table {
        Table::Reply => reply(from)?,
        Table::ApiKey => api_key(from)?,
        Table::Chore => chore(from)?,
        Table::Schedule => schedule(from)?,
        Table::Gate => gate(from)?,
        Table::Run => run(from)?,
        Table::Session => session(from)?,
        Table::Engine => Row::Engine(Engine {
            id: from.engine()?,
            beat: from.int()?,
            dead: from.flag()?,
            serves: from.json()?,
            lease_ms: from.maybe_small()?,
        }),
        Table::Stream => Row::Stream(Stream {
            ws: from.workspace()?,
            name: from.text()?,
            id: from.seq()?,
            head: from.int()?,
            closed: from.flag()?,
        }),
        Table::Subscription => sub(from)?,
        Table::LogHead => Row::LogHead(LogHead { ws: from.workspace()?, pos: from.int()? }),
        Table::Epoch => Row::Epoch(Epoch { ws: from.workspace()?, n: from.int()? }),
        Table::Def => def(from)?,
        Table::Event => event(from)?,
        Table::Ended => ended(from)?,
        Table::Step => step(from)?,
        Table::Item => {
            Row::Item(Item { run: from.seq()?, n: from.small()?, event: from.event_id()? })
        }
        Table::Wait => Row::Wait(WaitRow {
            ws: from.workspace()?,
            name: from.text()?,
            path: from.text()?,
            value: from.bytes()?,
            run: from.seq()?,
            step: from.text()?,
        }),
        Table::WaitPath => Row::WaitPath(WaitPath {
            ws: from.workspace()?,
            name: from.text()?,
            path: from.text()?,
        }),
        Table::Signal => Row::Signal(Signal {
            run: from.seq()?,
            name: from.text()?,
            seq: from.seq()?,
            data: from.payload()?,
        }),
        Table::Receipt => receipt(from)?,
        Table::Log => logged(from)?,
        Table::Chunk => Row::Chunk(Chunk {
            run: from.seq()?,
            step: from.text()?,
            attempt: from.small()?,
            n: from.small()?,
            seq: from.small()?,
            data: from.payload()?,
        }),
        Table::Staged => staged(from)?,
        Table::Snapshot => Row::StreamSnapshot(StreamSnapshot {
            stream: from.seq()?,
            kind: from.text()?,
            version: from.int()?,
            body: from.payload()?,
        }),
    })
}

fn reply(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Reply(Reply {
        ws: from.workspace()?,
        id: from.text()?,
        seq: from.seq()?,
        at: from.time()?,
        hash: from.text()?,
        answer: from.maybe_payload()?,
        response: from.maybe_payload()?,
    }))
}

fn api_key(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::ApiKey(ApiKey {
        id: from.text()?,
        ws: from.workspace()?,
        name: from.text()?,
        hash: from.text()?,
        read_only: from.flag()?,
        made_at: from.time()?,
        expires_at: from.maybe_time()?,
        used_at: from.maybe_time()?,
        revoked_at: from.maybe_time()?,
    }))
}

fn gate(from: &mut Cells) -> Result<Row, StoreError> {
    let key = GateKey::from_bytes(&from.bytes()?);
    let (id, at, due) = (from.seq()?, from.time()?, from.maybe_time()?);
    let state = from.json()?;
    let _event = from.maybe_int()?;
    Ok(Row::Gate(Gate { key, id, at, due, state }))
}

fn chore(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Chore(Chore {
        id: ChoreId { seq: from.seq()?, salt: from.salt()? },
        ws: from.workspace()?,
        topic: from.maybe_text()?,
        due: from.maybe_time()?,
        work: from.json()?,
    }))
}

fn schedule(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Schedule(Schedule {
        ws: from.workspace()?,
        app: from.text()?,
        workflow: from.text()?,
        id: from.text()?,
        next: from.maybe_time()?,
        last: from.maybe_time()?,
        outcome: from.maybe_json()?,
        paused_at: from.maybe_time()?,
    }))
}

fn session(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Session(Session {
        ws: from.workspace()?,
        app: from.text()?,
        flow: from.text()?,
        id: from.text()?,
        version: from.int()?,
        body: from.payload()?,
    }))
}

fn staged(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::from(Staged {
        run: from.seq()?,
        n: from.small()?,
        session: SessionRef { app: from.text()?, flow: from.text()?, id: from.text()? },
        op: from.json()?,
        version: from.int()?,
        seen: from.maybe_payload()?,
    }))
}

fn run(from: &mut Cells) -> Result<Row, StoreError> {
    let seq = from.seq()?;
    let columns = from.table.columns();
    let body = columns.iter().position(|(name, _)| *name == "body").unwrap_or(columns.len());
    // The columns between the number and the body, and after the body, are only needed by indexes.
    from.at = body + 1;
    let cell = from.rest.nth(body - 1);
    let run: Run = from.json_of(cell)?;
    let _columns = (from.maybe_int()?, from.maybe_int()?, from.maybe_text()?);
    if run.id.seq != seq {
        return Err(from.corrupt(&format!("run {seq} has the body of run {}", run.id.seq)));
    }
    Ok(Row::Run(Box::new(run)))
}

fn sub(from: &mut Cells) -> Result<Row, StoreError> {
    let (ws, reaction, stream) = (from.workspace()?, from.text()?, from.text()?);
    let _work = from.maybe_int()?;
    Ok(Row::Subscription(Subscription {
        ws,
        reaction,
        stream,
        at: from.int()?,
        want: from.int()?,
        owner: from.maybe_engine()?,
        fence: from.int()?,
        until: from.maybe_time()?,
        due: from.maybe_time()?,
        since: from.time()?,
        failures: from.small()?,
        claims: from.small()?,
        blocked: from.maybe_json()?,
        log: from.seq()?,
        error: from.maybe_json()?,
    }))
}

fn def(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Def(Def {
        lane: from.seq()?,
        ws: from.workspace()?,
        app: from.text()?,
        name: from.text()?,
        version: from.small()?,
        body: from.payload()?,
        released: from.maybe_int()?,
        assigned: from.maybe_flag()?,
        deployed: from.flag()?,
    }))
}

fn event(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Event(Event {
        id: from.event_id()?,
        ws: from.workspace()?,
        kind: from.word()?,
        name: from.text()?,
        at: from.time()?,
        ts: from.maybe_time()?,
        data: from.payload()?,
    }))
}

fn ended(from: &mut Cells) -> Result<Row, StoreError> {
    let id = RunId { seq: from.seq()?, salt: from.salt()? };
    let (ws, app, workflow) = (from.workspace()?, from.text()?, from.text()?);
    let version = from.small()?;
    let _state = from.text()?;
    let (queued_at, ended_at) = (from.time()?, from.time()?);
    let _event = from.seq()?;
    let body: EndedBody = from.json()?;
    let EndedBody { source, ending, parent, replay_of, purpose, effect_run, batch_of, .. } = body;
    Ok(Row::Ended(Ended {
        id,
        ws,
        app,
        workflow,
        version,
        source,
        queued_at,
        ended_at,
        ending,
        parent,
        then: body.then,
        replay_of,
        lane: from.seq()?,
        purpose,
        effect_run,
        batch_of,
        trail: body.trail,
        takeovers: body.takeovers,
    }))
}

fn step(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Step(Step {
        run: from.seq()?,
        id: from.text()?,
        kind: from.word()?,
        fence: from.int()?,
        at: from.time()?,
        result: if from.flag()? { Ok(from.payload()?) } else { Err(from.json()?) },
        seq: from.seq()?,
    }))
}

fn receipt(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::Receipt(Receipt {
        seq: from.seq()?,
        ws: from.workspace()?,
        app: from.text()?,
        workflow: from.text()?,
        key: from.json()?,
        event: from.seq()?,
        at: from.time()?,
        verdict: from.json()?,
    }))
}

fn logged(from: &mut Cells) -> Result<Row, StoreError> {
    Ok(Row::StreamEventRow(StreamEventRow {
        stream: from.seq()?,
        version: from.int()?,
        ws: from.workspace()?,
        pos: from.int()?,
        id: from.event_id()?,
        name: from.text()?,
        at: from.time()?,
        data: from.payload()?,
        meta: from.payload()?,
    }))
}

/// Iterator over a row's cells.
struct Cells {
    table: Table,
    at: usize,
    rest: vec::IntoIter<Cell>,
}

impl Cells {
    fn next(&mut self) -> Option<Cell> {
        self.at += 1;
        self.rest.next()
    }

    /// Returns an error that names the last cell taken.
    fn corrupt(&self, reason: &str) -> StoreError {
        let columns = self.table.columns();
        let column = self.at.checked_sub(1).and_then(|at| columns.get(at)).map_or("?", |it| it.0);
        StoreError::Corrupt(format!("{}.{column}: {reason}", self.table.name()).into())
    }

    fn maybe_int(&mut self) -> Result<Option<i64>, StoreError> {
        match self.next() {
            Some(Cell::Int(number)) => Ok(number),
            other => Err(self.corrupt(&format!("expected a number, got {other:?}"))),
        }
    }

    fn int(&mut self) -> Result<i64, StoreError> {
        self.maybe_int()?.ok_or_else(|| self.corrupt("expected a number, got null"))
    }

    fn small(&mut self) -> Result<u32, StoreError> {
        let number = self.int()?;
        u32::try_from(number).map_err(|_| self.corrupt(&format!("{number} is out of range")))
    }

    fn maybe_flag(&mut self) -> Result<Option<bool>, StoreError> {
        match self.maybe_int()? {
            None => Ok(None),
            Some(0) => Ok(Some(false)),
            Some(1) => Ok(Some(true)),
            Some(other) => Err(self.corrupt(&format!("expected 0 or 1, got {other}"))),
        }
    }

    fn maybe_small(&mut self) -> Result<Option<u32>, StoreError> {
        let number = self.maybe_int()?.map(u32::try_from).transpose();
        number.map_err(|_| self.corrupt("the number is out of range"))
    }

    fn flag(&mut self) -> Result<bool, StoreError> {
        self.maybe_flag()?.ok_or_else(|| self.corrupt("expected a number, got null"))
    }

    fn seq(&mut self) -> Result<Seq, StoreError> {
        self.int().map(Seq)
    }

    fn salt(&mut self) -> Result<u64, StoreError> {
        self.int().map(i64::cast_unsigned)
    }

    fn event_id(&mut self) -> Result<EventId, StoreError> {
        Ok(EventId { seq: self.seq()?, salt: self.salt()? })
    }

    fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp::from_micros)
    }

    fn maybe_time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.maybe_int()?.map(Timestamp::from_micros))
    }

    fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.next() {
            Some(Cell::Text(text)) => Ok(text),
            other => Err(self.corrupt(&format!("expected text, got {other:?}"))),
        }
    }

    fn text(&mut self) -> Result<String, StoreError> {
        self.maybe_text()?.ok_or_else(|| self.corrupt("expected text, got null"))
    }

    fn workspace(&mut self) -> Result<Workspace, StoreError> {
        self.text().map(Arc::from)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next() {
            Some(Cell::Bytes(Some(bytes))) => Ok(bytes),
            other => Err(self.corrupt(&format!("expected bytes, got {other:?}"))),
        }
    }

    fn engine(&mut self) -> Result<EngineId, StoreError> {
        self.maybe_engine()?.ok_or_else(|| self.corrupt("expected an engine's id, got null"))
    }

    fn maybe_engine(&mut self) -> Result<Option<EngineId>, StoreError> {
        let Some(text) = self.maybe_text()? else { return Ok(None) };
        match EngineId::from_str_radix(&text, 16) {
            Ok(id) => Ok(Some(id)),
            Err(_) => Err(self.corrupt(&format!("expected 32 hex digits, got `{text}`"))),
        }
    }

    fn payload(&mut self) -> Result<Payload, StoreError> {
        self.maybe_payload()?.ok_or_else(|| self.corrupt("expected JSON, got null"))
    }

    fn maybe_payload(&mut self) -> Result<Option<Payload>, StoreError> {
        let Some(text) = self.maybe_text()? else { return Ok(None) };
        let text: value::StringDeserializer<value::Error> = text.into_deserializer();
        Payload::deserialize(text).map(Some).map_err(|error| self.corrupt(&error.to_string()))
    }

    fn json<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        let cell = self.next();
        self.json_of(cell)
    }

    fn json_of<T: DeserializeOwned>(&mut self, cell: Option<Cell>) -> Result<T, StoreError> {
        match cell {
            Some(Cell::Text(Some(text))) => {
                serde_json::from_str(&text).map_err(|error| self.corrupt(&error.to_string()))
            }
            other => Err(self.corrupt(&format!("expected JSON, got {other:?}"))),
        }
    }

    fn maybe_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StoreError> {
        match self.next() {
            Some(Cell::Text(None)) => Ok(None),
            cell => self.json_of(cell).map(Some),
        }
    }

    /// Reads an enum without fields from its bare name.
    fn word<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        let word = self.text()?;
        serde_json::from_value(serde_json::Value::String(word))
            .map_err(|error| self.corrupt(&error.to_string()))
    }
}
