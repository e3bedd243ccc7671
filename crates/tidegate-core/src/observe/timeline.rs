//! Timeline of a run: when it was queued, driven, waiting or paused.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    draft::{Decided, Draft},
    id::RunId,
    row::{At, Mark, Row, RowKey, Trail, Workspace},
    time::{Timestamp, rfc3339::OptionalTime},
};

/// Timeline of a run, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The spans, oldest first. The first begins at the admission, each other one at the end of the
    /// span before it.
    pub spans: Vec<Span>,
    /// The total time in each queue and the time waiting for an engine, longest first.
    pub waited: Vec<Waited>,
    /// The sum of the times in `waited`.
    pub waited_ms: u64,
    /// When the run was first driven.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub started_at: Option<Timestamp>,
}

/// Span of a run's timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The state in this span: `queued` at a gate, `ready`, `running`, `waiting`, `paused`,
    /// `several` of these, or `unknown` for runs of older builds, which recorded no trails.
    pub kind: &'static str,
    /// The control of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<&'static str>,
    /// The pool of the queue, if it is no queue of the workflow itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The key of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The kind of the wait; if there are several waits, of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<&'static str>,
    /// The child that the run waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<RunId>,
    /// The step that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The start of the span.
    #[serde(with = "OptionalTime")]
    pub from: Option<Timestamp>,
    /// The end of the span; none for the current span.
    #[serde(with = "OptionalTime")]
    pub to: Option<Timestamp>,
}

/// Total time of a run in one queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// The control; empty for the wait for an engine.
    pub control: &'static str,
    /// The pool, if it is no queue of the workflow itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The key.
    pub key: String,
    /// The duration.
    pub ms: u64,
}

/// Returns the timeline of a run; `None` if there is no run with this id.
pub fn timeline<E>(draft: &Draft, ws: &Workspace, id: RunId) -> Decided<Option<Timeline>, E> {
    if let Some(Row::Ended(ended)) = draft.row(&RowKey::Ended(id.seq))?
        && ended.id == id
        && ended.ws == *ws
    {
        return Ok(Some(spans_of(
            ended.queued_at,
            &ended.trail,
            Some(ended.ended_at),
            draft.now(),
        )));
    }
    let run = draft.run(id.seq)?.filter(|run| run.id == id && run.ws == *ws);
    Ok(run.map(|run| spans_of(run.queued_at, &run.trail, None, draft.now())))
}

fn spans_of(
    queued_at: Timestamp,
    trail: &Trail,
    end: Option<Timestamp>,
    now: Timestamp,
) -> Timeline {
    let mut timeline = Timeline::default();
    let mut lines: BTreeMap<(&'static str, Option<String>, String), u64> = BTreeMap::new();
    let mut marks = trail.marks().iter().peekable();
    let mut from = queued_at;
    // The trail does not begin at the admission: an older build, without trails, admitted the run.
    if marks.peek().is_none_or(|first| first.0 > queued_at) {
        let to = marks.peek().map(|first| first.0).or(end);
        let span = Span { kind: "unknown", from: Some(queued_at), to, ..Span::default() };
        timeline.spans.push(span);
        from = to.unwrap_or(now);
    }
    while let Some(Mark(at, place)) = marks.next() {
        let to = marks.peek().map(|next| next.0).or(end);
        let span = Span { from: Some(from), to, ..span(place) };
        if matches!(place, At::Queue(_) | At::Ready) {
            let (control, key) = (span.control.unwrap_or_default(), span.key.clone());
            let line = (control, span.pool.clone(), key.unwrap_or_default());
            *lines.entry(line).or_default() += micros(from, to.unwrap_or(now));
        }
        if *place == At::Driven {
            timeline.started_at.get_or_insert(*at);
        }
        from = to.unwrap_or(now);
        timeline.spans.push(span);
    }
    let waited = lines.into_iter();
    let waited =
        waited.map(|((control, pool, key), us)| Waited { control, pool, key, ms: us / 1000 });
    timeline.waited = waited.collect();
    timeline.waited_ms = timeline.waited.iter().map(|waited| waited.ms).sum();
    timeline.waited.sort_by_key(|waited| std::cmp::Reverse(waited.ms));
    timeline
}

fn micros(from: Timestamp, to: Timestamp) -> u64 {
    to.micros().saturating_sub(from.micros()).max(0).unsigned_abs()
}

fn span(place: &At) -> Span {
    let of = |kind| Span { kind, ..Span::default() };
    match place {
        At::Queue(gate) => match gate.scope() {
            Some(scope) => Span {
                control: Some(scope.class.control()),
                pool: scope.pool().map(str::to_owned),
                key: Some(scope.shown_key()),
                ..of("queued")
            },
            None => of("queued"),
        },
        At::Ready => of("ready"),
        At::Driven => of("running"),
        At::Waiting(waits) => {
            let Some((step, awaited)) = waits.first() else { return of("waiting") };
            let (on, child) = awaited.told();
            Span { step: Some(step.clone()), on: Some(on), child, ..of("waiting") }
        }
        At::Paused => of("paused"),
        At::Several => of("several"),
    }
}
