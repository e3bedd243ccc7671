//! Histories: runs as data, for a replay of their records against the code of today.

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

/// A run with all that its handler starts from. One line of JSON each is the format of
/// `tidegate runs export`; payloads stand in it as JSON text, so that every byte is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct History {
    /// The run.
    pub run: RunId,
    /// Its app.
    pub app: String,
    /// Its workflow, or `flow/action`.
    pub workflow: String,
    /// The version that it was admitted under.
    pub version: u32,
    /// Its state.
    pub state: String,
    /// Why there is this run.
    #[serde(default)]
    pub purpose: Purpose,
    /// When it was admitted.
    pub queued_at: Timestamp,
    /// Whether it was started with a batch.
    #[serde(default)]
    pub batch: bool,
    /// Its input, or all inputs of its batch.
    pub events: Vec<Input>,
    /// The run that it took the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<RunId>,
    /// The run that it is a new attempt at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<RunId>,
    /// The run whose id its idempotency keys begin with, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_run: Option<RunId>,
    /// Failed attempts of steps that are not recorded yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u32>,
    /// Its waits that are not answered yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// Its records, in the order in which they were written.
    pub steps: Vec<Recorded>,
}

/// An input of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Input {
    /// The event's id.
    pub id: EventId,
    /// Where it came from.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// When it was accepted.
    pub at: Timestamp,
    /// Its data.
    pub data: Payload,
}

/// A record of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Recorded {
    /// The step's id.
    pub id: String,
    /// Its kind.
    pub kind: StepKind,
    /// The lease under which it was written.
    pub fence: i64,
    /// When it was written.
    pub at: Timestamp,
    /// Its value, unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// The error that it failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// A page of histories, newest run first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Histories {
    /// The histories.
    pub histories: Vec<History>,
    /// The next page begins below this one.
    pub next: Option<Seq>,
}

/// A page ends after the run with which its payloads exceed this, whatever its limit: a single
/// run may remember gigabytes, and a page is held in memory.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

impl Engine {
    /// The histories of runs, newest first, a page at a time: the next one begins below the last
    /// page's `next`. For [`testing::replay`](crate::testing::replay).
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
}

/// A run that has ended as its handler saw it.
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

    /// The rows that a handler starts from; `None` if the run's input is gone.
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
            Event { id, ws: ws.clone(), kind, name, at, ts: None, data }
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
