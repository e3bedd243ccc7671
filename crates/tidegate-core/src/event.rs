//! Event ingestion: records events, wakes the runs that wait for them, and decides on each event
//! for every workflow that it triggers.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    catalog::{Current, Pools},
    delivery,
    draft::{Decided, Draft, Missing, Stop},
    flow::{
        admit::admit,
        claim, fold, idempotency,
        plan::{Candidate, Origin, Results},
        pool, receipts,
        verdict::{TRIGGERS, Verdict, VerdictView},
    },
    id::{EventId, RunId, Seq},
    json::Payload,
    key::Key,
    reads::Scan,
    row::{Deferred, Delivery, Event, Kind, Receipt, Row, RowKey, Source, Workspace},
    run::{
        end,
        record::Until,
        wake::{self, Reached},
    },
    time::{Timestamp, rfc3339::OptionalTime},
};

/// Maximum number of events in one request.
pub const MAX_EVENTS: usize = 1000;

/// Number of receipts of an event that are read at first.
const RECEIPTS_READ: u32 = 32;

/// An event that is being posted.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// The event's name.
    pub name: String,
    /// The payload.
    pub data: Payload,
    /// The deduplication id: a later event with the same id within 24 hours is dropped.
    pub dedupe_id: Option<String>,
    /// When the event happened, according to the sender. It has no effect on time or order of runs.
    pub ts: Option<Timestamp>,
    /// When the event is delivered, if not at once (spec L23).
    pub deliver: Option<Until>,
    /// Further members of the event, as a JSON object: its user, its version, its metadata; not
    /// `name`, `data` and `ts`, which it has itself.
    pub attributes: Option<Payload>,
}

impl NewEvent {
    /// Creates an event without a deduplication id, which is delivered at once.
    pub fn new(name: impl Into<String>, data: Payload) -> Self {
        Self { name: name.into(), data, dedupe_id: None, ts: None, deliver: None, attributes: None }
    }

    /// Delivers the event at a time, and not at once. A time that has passed means at once.
    #[must_use]
    pub fn deliver_at(self, at: Timestamp) -> Self {
        Self { deliver: Some(Until::At(at)), ..self }
    }

    /// Delivers the event after a delay, and not at once. The delay begins when the event is stored.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        Self { deliver: Some(Until::from(delay)), ..self }
    }
}

/// Answer to the sender of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Posted {
    /// The event's id, or that of the first event with the same `dedupeId`.
    pub id: EventId,
    /// Whether the event repeats an earlier `dedupeId` and therefore had no effect.
    pub deduped: bool,
    /// Number of waiting runs that the event woke in this transaction.
    pub woke: u32,
    /// Number of runs that the event cancelled in this transaction, by their `cancelOn`.
    #[serde(default, skip_serializing_if = "none")]
    pub cancelled: u32,
    /// Whether the event reaches more runs than fit into one transaction. They are woken or
    /// cancelled in later transactions.
    pub waking: bool,
    /// The outcomes, one per triggered workflow.
    pub runs: Vec<Outcome>,
    /// The current outcomes of the first event with the same `dedupeId`, from its receipts.
    pub first: Vec<Value>,
    /// When the event will be delivered, if it waits for that; for a repeat, the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_at: Option<Timestamp>,
}

impl Posted {
    /// Creates the answer for an event that reaches no run now.
    fn alone(id: EventId, deliver_at: Option<Timestamp>) -> Self {
        let (runs, first) = (Vec::new(), Vec::new());
        Self { id, deduped: false, woke: 0, cancelled: 0, waking: false, runs, first, deliver_at }
    }

    /// Returns the first run among the outcomes, if there is one.
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
    /// Controls whose key is missing in the event. A control treats all events without its key
    /// as if they had the same key.
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
        let mut missing = Missing::default();
        let first = missing.note(current_outcomes(draft, id))?.unwrap_or_default();
        let waiting = missing.note(draft.event(id))?.flatten().filter(|it| it.is_deferred());
        let deliver_at = waiting.and_then(|event| event.delivery).map(|delivery| delivery.at);
        missing.settle()?;
        return Ok(Posted { deduped: true, first, ..Posted::alone(id, deliver_at) });
    }
    let deliver_at = delivery::planned(draft, event.deliver)?;
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
        delivery: deliver_at.map(|at| Delivery { at, end: None }),
        attributes: event.attributes.clone(),
    };
    draft.put(row.clone());
    if let Some(at) = deliver_at {
        let (name, dedupe_id) = (event.name.clone(), event.dedupe_id.clone());
        let delay_ms = event.deliver.and_then(Until::span);
        let deferred = Deferred { name, delay_ms, dedupe_id, request: None };
        delivery::defer(draft, &row, at, deferred);
        return Ok(Posted::alone(id, deliver_at));
    }
    arrive(draft, &row, event.dedupe_id.is_some())
}

/// Admits an event: wakes the runs that wait for it, and decides on it for every workflow that it
/// triggers. The event has been recorded. `repeatable` if it has a `dedupeId`.
pub(crate) fn arrive(draft: &mut Draft, row: &Event, repeatable: bool) -> Decided<Posted> {
    let ws = &row.ws;
    let Reached { woke, cancelled, more: waking } = wake::post(draft, row)?;
    let catalog = draft.catalog(ws)?;
    let mut runs = Vec::new();
    for current in catalog.triggered(&row.name) {
        match current.workflow.takes(row) {
            Ok(true) => runs.push(consider(draft, ws, current, row, Origin::Arrival, None)?),
            Ok(false) => {}
            Err(reason) => runs.push(reject(draft, ws, current, row, reason)?),
        }
    }
    if repeatable {
        remember(draft, row, &runs)?;
    }
    Ok(Posted { woke, cancelled, waking, runs, ..Posted::alone(row.id, None) })
}

/// Stores a receipt for each plain start, so that the answer to a repeated event can include it.
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
            at: draft.now(),
            verdict: outcome.verdict.to_value(),
        };
        draft.put(receipt);
    }
    Ok(())
}

/// Returns the current outcomes of an event: its last receipt for each workflow.
fn current_outcomes(draft: &Draft, event: EventId) -> Decided<Vec<Value>> {
    let (from, to) = (RowKey::Receipt(Seq(i64::MIN)), RowKey::Receipt(Seq(i64::MAX)));
    let key = RowKey::Event(event.seq);
    // The receipts of an event of this same transaction are only in the draft. They must not be
    // read from the store, because the event's number is not final yet.
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

/// Decides on one input for one workflow, and writes the receipt.
pub fn consider(
    draft: &mut Draft,
    ws: &Workspace,
    current: &Current,
    event: &Event,
    origin: Origin,
    function_key: Option<Key>,
) -> Decided<Outcome> {
    let (ws, parent, batch) = (ws.clone(), None, None);
    let (pools, results) = (pool::of(draft, &ws, &current.workflow)?, Results::default());
    let candidate =
        Candidate { ws, current, event, origin, parent, function_key, batch, pools, results };
    // Not undone with a refusal: the run of the flush may be the one that refuses the event.
    fold::flush_overdue(draft, &candidate)?;
    let verdict = match draft.keep_or_undo(|draft| admit(draft, &candidate)) {
        Ok(verdict) | Err(Stop::Refused(verdict)) => verdict,
        Err(Stop::Need(reads)) => return Err(Stop::Need(reads)),
        Err(Stop::Full) => return Err(Stop::Full),
    };
    if let Some(run) = candidate.promised()
        && verdict.run() != Some(run)
    {
        let source = Source::Event(event.id);
        end::cancel_unstarted(draft, &candidate, (run, source), &verdict);
    }
    conclude(draft, &candidate, verdict)
}

/// Rejects an event for a workflow whose trigger has a condition that cannot be evaluated
/// (spec L15). The event does not start the workflow: to start it would ignore the author's condition.
fn reject(
    draft: &mut Draft,
    ws: &Workspace,
    current: &Current,
    event: &Event,
    reason: String,
) -> Decided<Outcome> {
    let (ws, origin, results) = (ws.clone(), Origin::Arrival, Results::default());
    let (parent, function_key, batch, pools) = (None, None, None, Pools::default());
    let candidate =
        Candidate { ws, current, event, origin, parent, function_key, batch, pools, results };
    conclude(draft, &candidate, Verdict::Rejected { control: TRIGGERS, reason })
}

/// Writes the receipt of a verdict, and returns the outcome.
fn conclude(draft: &mut Draft, candidate: &Candidate<'_>, verdict: Verdict) -> Decided<Outcome> {
    receipts::write(draft, candidate, &verdict)?;
    let Current { workflow, version, .. } = candidate.current;
    Ok(Outcome {
        app: workflow.app.clone(),
        workflow: workflow.name.clone(),
        version: version.number,
        key_missing: candidate.keys_missing(),
        verdict,
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
    /// The version that made the decision; absent if no run has the event as its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: VerdictView,
    /// Controls whose key is missing in the event. A control treats all events without its key
    /// as if they had the same key.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub key_missing: &'a [&'static str],
}

impl Posted {
    /// Returns the answer as sent to the caller (spec events).
    pub fn view(&self) -> PostedView<'_> {
        let Self { id, deduped, woke, cancelled, waking, runs, first, deliver_at } = self;
        let runs = runs.iter().map(|outcome| RunOutcome::New(outcome.view()));
        let runs = runs.chain(first.iter().map(RunOutcome::First)).collect();
        let (id, deduped, deliver_at) = (*id, *deduped, *deliver_at);
        let (woke, cancelled, waking) = (*woke, *cancelled, *waking);
        PostedView { id, deduped, deliver_at, woke, cancelled, waking, runs }
    }

    /// Returns the JSON of [`Posted::view`].
    pub fn to_value(&self) -> Value {
        json!(self.view())
    }
}

/// Answer to the sender of an event, in the form in which it is sent.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "PostedEvent"))]
#[serde(rename_all = "camelCase")]
pub struct PostedView<'a> {
    /// The event's id, or that of the first event with the same `dedupeId`.
    pub id: EventId,
    /// Whether the event repeats an earlier `dedupeId` and therefore had no effect.
    pub deduped: bool,
    /// When the event will be delivered, if it waits for that. Until then it wakes and starts no
    /// run. For a repeated event, that of the first event.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub deliver_at: Option<Timestamp>,
    /// Number of waiting runs that the event woke in this transaction.
    pub woke: u32,
    /// Number of runs that the event cancelled in this transaction, by their `cancelOn`; absent if
    /// there is none.
    #[serde(skip_serializing_if = "none")]
    pub cancelled: u32,
    /// Whether the event reaches more runs than fit into one transaction. They are woken or
    /// cancelled in later transactions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waking: bool,
    /// The outcomes, one per triggered workflow; for a repeated event, the current outcomes of the
    /// first event.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<OutcomeView<'a>>"))]
    pub runs: Vec<RunOutcome<'a>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn none(count: &u32) -> bool {
    *count == 0
}

/// Outcome of this event, or of the first event with the same `dedupeId`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "most values are `New`: a box would cost more")]
pub enum RunOutcome<'a> {
    /// The outcome of this event.
    New(OutcomeView<'a>),
    /// The outcome of the first event: its receipt, which has the same members.
    First(&'a Value),
}
