//! Event ingestion: records events, wakes the runs that wait for them, and admits them to every
//! workflow that they trigger.

use std::{cell::OnceCell, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    catalog::Current,
    draft::{Decided, Draft, Stop},
    flow::{
        admit::admit,
        claim, idempotency,
        plan::{Candidate, Origin},
        receipts,
        verdict::{Verdict, VerdictView},
    },
    id::{EventId, RunId, Seq},
    json::Payload,
    key::Key,
    reads::Scan,
    row::{Event, Kind, Receipt, Row, RowKey, Workspace},
    run::wake,
    time::Timestamp,
};

/// Maximum number of events in one request.
pub const MAX_EVENTS: usize = 1000;

/// How many receipts of an event are read at first.
const RECEIPTS_READ: u32 = 32;

/// Event to be posted.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// The event's name.
    pub name: String,
    /// The payload.
    pub data: Payload,
    /// The deduplication id: a repeat within 24 hours is dropped before anything else.
    pub dedupe_id: Option<String>,
    /// When the event happened; neither delays nor orders it.
    pub ts: Option<Timestamp>,
}

/// Answer to the sender of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Posted {
    /// The event's id, or that of the first event with the same `dedupeId`.
    pub id: EventId,
    /// Whether the event was a repeat, and had no effect.
    pub deduped: bool,
    /// Number of waiting runs that it woke at once.
    pub woke: u32,
    /// Whether there are too many waiting runs for one transaction: the others are woken in chunks
    /// afterwards.
    pub waking: bool,
    /// The outcomes, one per workflow.
    pub runs: Vec<Outcome>,
    /// The current outcomes of the first event with the same `dedupeId`, from its receipts.
    pub first: Vec<Value>,
}

impl Posted {
    /// Returns the first run among the outcomes, if any: an event may trigger several workflows.
    pub fn run(&self) -> Option<RunId> {
        self.runs.iter().find_map(|outcome| outcome.verdict.run())
    }
}

/// Verdict of one workflow on an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The version that made the decision.
    pub version: u32,
    /// The verdict.
    pub verdict: Verdict,
    /// Controls whose key the event lacks: it goes to their one bucket for such events.
    #[serde(deserialize_with = "crate::flow::words")]
    pub key_missing: Vec<&'static str>,
}

/// Posts one event.
pub fn post(draft: &mut Draft, ws: &Workspace, event: &NewEvent) -> Decided<Posted> {
    let dedupe = event.dedupe_id.as_ref().map(|id| idempotency::dedupe_key(ws, id));
    if let Some(key) = &dedupe
        && let Some(first) = claim::held(draft, key)?
    {
        let id = first.event;
        let first = current_outcomes(draft, id)?;
        let (woke, waking, runs) = (0, false, Vec::new());
        return Ok(Posted { id, deduped: true, woke, waking, runs, first });
    }
    let id = draft.new_event_id()?;
    if let Some(key) = dedupe {
        claim::take(draft, key, id, None, idempotency::DEDUPE_MS)?;
    }
    let row = Event {
        id,
        ws: ws.clone(),
        kind: Kind::Event,
        name: event.name.clone(),
        at: draft.now(),
        ts: event.ts,
        data: event.data.clone(),
    };
    draft.put(row.clone());
    let (woke, waking) = wake::post(draft, &row)?;
    let catalog = draft.catalog(ws)?;
    let mut runs = Vec::new();
    for current in catalog.triggered(&event.name) {
        runs.push(consider(draft, ws, current, &row, Origin::Arrival, None)?);
    }
    if event.dedupe_id.is_some() {
        remember(draft, &row, &runs)?;
    }
    Ok(Posted { id, deduped: false, woke, waking, runs, first: Vec::new() })
}

/// Stores plain starts too, so that the answer to a repeat can include them.
fn remember(draft: &mut Draft, event: &Event, runs: &[Outcome]) -> Decided<()> {
    for outcome in runs.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Started { .. }))
    {
        let receipt = Receipt {
            seq: draft.next_seq()?,
            ws: event.ws.clone(),
            app: outcome.app.clone(),
            workflow: outcome.workflow.clone(),
            key: String::new(),
            event: event.id.seq,
            at: event.at,
            verdict: outcome.verdict.to_value(),
        };
        draft.put(receipt);
    }
    Ok(())
}

/// Returns the current outcomes from the receipts of an event: the last for each workflow.
fn current_outcomes(draft: &Draft, event: EventId) -> Decided<Vec<Value>> {
    let (from, to) = (RowKey::Receipt(Seq(i64::MIN)), RowKey::Receipt(Seq(i64::MAX)));
    let key = RowKey::Event(event.seq);
    // An event of this very transaction has no receipts in the store, and its number is not yet
    // final: it must not be read.
    let new = draft.written(key.clone(), key).next().is_some();
    let stored = if new {
        Vec::new()
    } else {
        draft.found_all(&Scan::Receipts(event.seq), RECEIPTS_READ)?
    };
    let mut last: BTreeMap<(&str, &str), &Receipt> = BTreeMap::new();
    for row in stored.into_iter().chain(draft.written(from, to)) {
        if let Row::Receipt(receipt) = row
            && receipt.event == event.seq
        {
            last.insert((&receipt.app, &receipt.workflow), receipt);
        }
    }
    let values = last.into_values().map(|receipt| {
        let mut value = json!({ "workflow": receipt.workflow });
        if let (Some(value), Some(verdict)) = (value.as_object_mut(), receipt.verdict.as_object()) {
            value.extend(verdict.clone());
        }
        value
    });
    Ok(values.collect())
}

/// Decides one input for one workflow, and writes the receipt.
pub fn consider(
    draft: &mut Draft,
    ws: &Workspace,
    current: &Current,
    event: &Event,
    origin: Origin,
    function_key: Option<Key>,
) -> Decided<Outcome> {
    let (ws, parent) = (ws.clone(), None);
    let (id, data, steps) = (event.id, event.data.clone(), OnceCell::new());
    let candidate = Candidate {
        ws,
        current,
        event: id,
        data,
        origin,
        parent,
        function_key,
        batch: None,
        steps,
    };
    let verdict = match draft.keep_or_undo(|draft| admit(draft, &candidate)) {
        Ok(verdict) | Err(Stop::Refused(verdict)) => verdict,
        Err(Stop::Need(reads)) => return Err(Stop::Need(reads)),
        Err(Stop::Full) => return Err(Stop::Full),
    };
    receipts::write(draft, &candidate, &verdict)?;
    let key_missing = candidate.keys_missing();
    Ok(Outcome {
        app: current.workflow.app.clone(),
        workflow: current.workflow.name.clone(),
        version: current.version.number,
        verdict,
        key_missing,
    })
}

impl Outcome {
    /// Returns the outcome as sent to the caller (spec events).
    pub fn view(&self) -> OutcomeView<'_> {
        OutcomeView {
            workflow: &self.workflow,
            version: self.verdict.run().map(|_| self.version),
            verdict: self.verdict.view(),
            key_missing: &self.key_missing,
        }
    }

    /// Returns the JSON of [`Outcome::view`].
    pub fn to_value(&self) -> Value {
        json!(self.view())
    }
}

/// Outcome of one workflow, as sent to the caller.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Outcome"))]
#[serde(rename_all = "camelCase")]
pub struct OutcomeView<'a> {
    /// The workflow.
    pub workflow: &'a str,
    /// The version that made the decision; absent where no run carries the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: VerdictView,
    /// Controls whose key the event lacks: it goes to their one bucket for such events.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub key_missing: &'a [&'static str],
}

impl Posted {
    /// Returns the answer as sent to the caller (spec events).
    pub fn view(&self) -> PostedView<'_> {
        let Self { id, deduped, woke, waking, runs, first } = self;
        let runs = runs.iter().map(|outcome| RunOutcome::New(outcome.view()));
        let runs = runs.chain(first.iter().map(RunOutcome::First)).collect();
        PostedView { id: *id, deduped: *deduped, woke: *woke, waking: *waking, runs }
    }

    /// Returns the JSON of [`Posted::view`].
    pub fn to_value(&self) -> Value {
        json!(self.view())
    }
}

/// Answer to the sender of an event, as it is sent.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "PostedEvent"))]
#[serde(rename_all = "camelCase")]
pub struct PostedView<'a> {
    /// The event's id, or that of the first event with the same `dedupeId`.
    pub id: EventId,
    /// Whether the event was a repeat, and had no effect.
    pub deduped: bool,
    /// Number of waiting runs that it woke at once.
    pub woke: u32,
    /// Whether there are too many waiting runs for one transaction: the others are woken in chunks
    /// afterwards.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waking: bool,
    /// The outcomes, one per workflow; for a repeat, the current ones of the first event.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<OutcomeView<'a>>"))]
    pub runs: Vec<RunOutcome<'a>>,
}

/// Outcome of this event, or of the first event with the same `dedupeId` from its receipts.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "most are new; a box would cost more than it saves")]
pub enum RunOutcome<'a> {
    /// Of this event.
    New(OutcomeView<'a>),
    /// Of the first event: a receipt, which has the same members.
    First(&'a Value),
}
