//! Histories: recorded runs as data, for replaying them against the current code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::{
    id::{EventId, RunId, Seq},
    json::Payload,
    list::{RunFilter, RunStatus},
    row::{
        Ended, Event, Kind, Purpose, Rank, Row, Run, RunError, Source, Step, StepKind, Wait,
        Workspace,
    },
    time::Timestamp,
};

use crate::{
    api::Engine,
    error::Error,
    load::{Loaded, load},
};

/// A run with everything that its handler starts from: input, records and waits.
///
/// `tidegate runs export` writes one history per line of JSON. Payloads are JSON texts, so that
/// every byte is preserved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct History {
    /// Id of the run.
    pub run: RunId,
    /// App of the run.
    pub app: String,
    /// Workflow of the run, or `flow/action`.
    pub workflow: String,
    /// Version that the run was admitted under.
    pub version: u32,
    /// State of the run, such as `waiting` or `completed`.
    pub state: String,
    /// Purpose of the run: ordinary, failure handler or compensation.
    #[serde(default)]
    pub purpose: Purpose,
    /// Time at which the run was admitted.
    pub queued_at: Timestamp,
    /// Whether the run was started by a batch.
    #[serde(default)]
    pub batch: bool,
    /// Event of the run, or all events of its batch.
    pub events: Vec<Input>,
    /// Run that this run replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<RunId>,
    /// Run that this run replays or retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<RunId>,
    /// Run whose id is the prefix of this run's idempotency keys, if it is another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_run: Option<RunId>,
    /// Number of failed attempts of steps that are not recorded yet, by step id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u32>,
    /// Waits without an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<serde_json::Value>"))]
    pub waits: Vec<Wait>,
    /// Records of the steps, in the order in which they were written.
    pub steps: Vec<Recorded>,
}

/// An event that started a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "HistoryInput"))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Input {
    /// Id of the event.
    pub id: EventId,
    /// Origin of the event.
    pub kind: Kind,
    /// Name of the event.
    pub name: String,
    /// Time at which the event was accepted.
    pub at: Timestamp,
    /// Data of the event.
    pub data: Payload,
}

/// Record of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "HistoryStep"))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Recorded {
    /// Id of the step.
    pub id: String,
    /// Kind of the step.
    pub kind: StepKind,
    /// Fence of the lease under which the record was written.
    pub fence: i64,
    /// Time at which the record was written.
    pub at: Timestamp,
    /// Output, unless the step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// Error, if the step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// A page of histories, newest run first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Histories {
    /// Histories of this page.
    pub histories: Vec<History>,
    /// Cursor of the next page, which begins with the run below this one.
    pub next: Option<Seq>,
}

/// Size limit of a page: the page ends after the run whose payloads exceed it, whatever the row
/// limit. A single run may record gigabytes, and a page is held in memory.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

impl Engine {
    /// Returns a page of histories of runs, newest first, for
    /// [`testing::replay`](crate::testing::replay).
    ///
    /// For the next page, pass this page's `next`.
    pub async fn histories(
        &self,
        which: &RunFilter,
        below: Option<Seq>,
        limit: u32,
    ) -> Result<Histories, Error> {
        let page = self.runs(which, below, limit).await?;
        let (mut histories, mut bytes, mut next) = (Vec::new(), 0, page.next);
        for row in &page.runs {
            let (run, state) = match row {
                Row::Run(run) => ((**run).clone(), RunStatus::of(run).map(RunStatus::as_str)),
                Row::Ended(ended) => (as_it_was(ended), Some(ended.ending.state())),
                _ => continue,
            };
            let seq = run.id.seq;
            let loaded = load(&**self.store(), [&run]).await?.remove(&seq).unwrap_or_default();
            let history = History::new(run, state.unwrap_or("cancelled"), loaded);
            bytes += history.bytes();
            histories.push(history);
            if bytes > PAGE_BYTES {
                next = Some(seq);
                break;
            }
        }
        Ok(Histories { histories, next })
    }

    /// Returns the event of a run that has not ended, or all events of its batch, in their order.
    pub async fn inputs(&self, run: RunId) -> Result<Vec<Event>, Error> {
        let live = self.live(run).await?;
        let mut loaded = load(&**self.store(), [&*live]).await?;
        Ok(loaded.remove(&run.seq).unwrap_or_default().events)
    }
}

/// Reconstructs an ended run as its handler saw it.
fn as_it_was(ended: &Ended) -> Run {
    let rank = Rank { at: ended.queued_at, seq: ended.id.seq };
    let name = (ended.app.clone(), ended.workflow.clone());
    let version = (ended.version, ended.lane);
    let (id, ws, source, queued_at) = (ended.id, ended.ws.clone(), ended.source, ended.queued_at);
    Run {
        purpose: ended.purpose,
        replay_of: ended.replay_of,
        effect_run: ended.effect_run,
        batch_of: ended.batch_of,
        ..Run::new(id, ws, name, version, source, queued_at, rank)
    }
}

impl History {
    fn new(run: Run, state: &str, loaded: Loaded) -> Self {
        let Loaded { events, mut steps, .. } = loaded;
        steps.sort_by_key(|step| step.seq);
        let input = |event: Event| {
            let Event { id, kind, name, at, data, .. } = event;
            Input { id, kind, name, at, data }
        };
        let recorded = |step: Step| {
            let Step { id, kind, fence, at, result, .. } = step;
            let (output, error) = match result {
                Ok(output) => (Some(output), None),
                Err(error) => (None, Some(error)),
            };
            Recorded { id, kind, fence, at, output, error }
        };
        Self {
            run: run.id,
            app: run.app,
            workflow: run.workflow,
            version: run.version,
            state: state.to_owned(),
            purpose: run.purpose,
            queued_at: run.queued_at,
            batch: matches!(run.source, Source::Batch(_)),
            events: events.into_iter().map(input).collect(),
            replaced: run.replaced,
            replay_of: run.replay_of,
            effect_run: run.effect_run,
            failures: run.failures,
            waits: run.waits,
            steps: steps.into_iter().map(recorded).collect(),
        }
    }

    fn bytes(&self) -> usize {
        let outputs = self.steps.iter().filter_map(|step| step.output.as_ref());
        let inputs = self.events.iter().map(|event| &event.data);
        outputs.chain(inputs).map(|payload| payload.as_str().len()).sum()
    }

    /// Returns the rows that a handler starts from; `None` if the run's input has been deleted.
    pub(crate) fn into_rows(self, ws: &Workspace) -> Option<(Run, Vec<Event>, Vec<Step>)> {
        let first = self.events.first()?.id;
        let source = if self.batch { Source::Batch(first) } else { Source::Event(first) };
        let name = (self.app, self.workflow);
        let version = (self.version, Seq(0));
        let rank = Rank { at: self.queued_at, seq: self.run.seq };
        let run = Run {
            purpose: self.purpose,
            replaced: self.replaced,
            replay_of: self.replay_of,
            effect_run: self.effect_run,
            failures: self.failures,
            waits: self.waits,
            ..Run::new(self.run, ws.clone(), name, version, source, self.queued_at, rank)
        };
        let event = |input: Input| {
            let Input { id, kind, name, at, data } = input;
            let (delivery, attributes) = (None, None);
            Event { id, ws: ws.clone(), kind, name, at, ts: None, data, delivery, attributes }
        };
        let step = |(seq, recorded): (i64, Recorded)| {
            let Recorded { id, kind, fence, at, output, error } = recorded;
            let result = error.map_or_else(|| Ok(output.unwrap_or_else(Payload::null)), Err);
            Step { run: run.id.seq, id, kind, fence, at, result, seq: Seq(seq) }
        };
        let events = self.events.into_iter().map(event).collect();
        let steps = (1..).zip(self.steps).map(step).collect();
        Some((run, events, steps))
    }
}
