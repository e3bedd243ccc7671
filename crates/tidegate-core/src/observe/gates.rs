//! Gate queries: holders, queues, meters, folds and claims.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;

use crate::{
    catalog::{Catalog, Limit},
    draft::{Decided, Draft, Missing},
    explain::{ClosedBy, words},
    flow::adaptive::AdaptiveLimit,
    flow::meter::{Ahead, Rate, conforms, turn},
    id::{EventId, RunId, Seq},
    key::push_part,
    list,
    overrides::{Override, Target},
    reads::{Count, Scan},
    row::{
        Class, Costs, Gate, GateKey, GateState, Given, Meter, Meters, Phase, Row, RowKey, Scope,
        Workspace,
    },
    time::{Timestamp, rfc3339::OptionalTime},
};

/// Number of gates read for one page of a search by key.
const LOOK: u32 = 1000;

/// Maximum number of holders, and of queued runs, that are listed.
const NAMED: usize = 10;

/// Queues are counted up to this length.
pub const LINE: u32 = 10_000;

/// Filter of gates; absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateFilter {
    /// Gates of this control. If absent, claims (`dedupeId`, `idempotency`) are left out, because
    /// there may be one for each event of a day.
    pub control: Option<String>,
    /// Gates of this app.
    pub app: Option<String>,
    /// Gates of this workflow.
    pub workflow: Option<String>,
    /// Gates of this pool.
    pub pool: Option<String>,
    /// Gates with this text in the displayed key. Filtered after reading.
    pub key: Option<String>,
}

/// Page of gates, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatePage {
    /// The gates. A page with fewer gates than requested, or none, is not always the last one.
    pub gates: Vec<GateView>,
    /// The cursor: the gate after which the next page begins; none on the last page.
    pub next: Option<GateKey>,
}

/// Gate in the form in which users see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Gate"))]
#[serde(rename_all = "camelCase")]
pub struct GateView {
    /// The control.
    pub control: &'static str,
    /// The app; empty for a gate of a pool.
    pub app: String,
    /// The workflow, or the flow for a policy; empty for a gate of a pool.
    pub workflow: String,
    /// The pool that the gate belongs to, if it is no gate of a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Distinguishes gates of the same control: the path of the key, or a version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub slot: String,
    /// The displayed key.
    pub key: String,
    /// The limit under the current release, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lets_in: String,
    /// The overrides that apply to the gate, the most specific first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// The target of an override of this gate alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_target: Option<Target>,
    /// The run that has closed the gate, and the end of the closing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedBy>,
    /// The limit: the maximum number of runs at the same time, or of arrivals per period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The period of a meter, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_ms: Option<u64>,
    /// Maximum number of arrivals at once, for a meter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The numbers of the limits that came from data, with the event that set them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_data: Option<Given>,
    /// The key whose values take turns in the queue, if the limit has `fair`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_by: Option<String>,
    /// The value of the limit, if it is adaptive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveLimit>,
    /// Number of runs that hold the gate, or have a turn and have not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<usize>,
    /// The sum of the costs of these runs, where it differs from their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// The first runs inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<RunId>,
    /// Those of the first runs that are cancelled and whose workers have not stopped yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draining: Vec<RunId>,
    /// The queue, if runs are queued at the gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<QueueView>,
    /// Number of arrivals that a meter would admit now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// When a meter admits the next arrival.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub next_at: Option<Timestamp>,
    /// Number of events in a window or buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<u32>,
    /// When a window fires, a buffer is flushed or a claim expires.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub until: Option<Timestamp>,
    /// The event that has a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// The run that a window, buffer or claim is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

/// Queue of a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Queue"))]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// Number of queued runs.
    pub count: u32,
    /// Whether there may be more runs than were counted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The first queued runs, in order.
    pub first: Vec<RunId>,
    /// When the oldest of the first queued runs was queued.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub since: Option<Timestamp>,
}

/// Lists the gates of a workspace after a key, in key order: by control, in the order in which
/// controls act, then by workflow.
pub fn list<E>(
    draft: &Draft,
    ws: &Workspace,
    which: &GateFilter,
    after: Option<&GateKey>,
    limit: u32,
) -> Decided<GatePage, E> {
    let catalog = draft.catalog(ws)?;
    let look = if which.key.is_some() { limit.max(LOOK) } else { limit };
    let mut missing = Missing::default();
    let mut found: Vec<&Gate> = Vec::new();
    let mut last = None;
    for scan in ranges(&catalog, ws, which).into_iter().filter_map(|range| rest(range, after)) {
        let Some(rows) = missing.note(draft.found(&scan, look))? else { continue };
        // If a range has more gates than were read, the page ends there: the gates of later ranges
        // come after them.
        if last.is_none() {
            found.extend(rows.iter().filter_map(|row| row.as_gate()));
            last = rows.last().filter(|_| rows.len() >= look as usize).and_then(|row| key_of(row));
        }
    }
    missing.settle()?;
    let wanted = |key: &GateKey| key.scope().filter(|scope| fits(which, scope));
    let shown = found.iter().filter_map(|gate| Some((*gate, wanted(&gate.key)?)));
    let shown: Vec<_> = shown.take(limit as usize).collect();
    if shown.len() >= limit as usize {
        let end = shown.last().map(|(gate, _)| gate.key.clone());
        let more = found.last().is_some_and(|gate| end.as_ref() != Some(&gate.key));
        last = if more || last.is_some() { end } else { None };
    }
    let gates = show_all(draft, &catalog, &shown)?;
    Ok(GatePage { gates, next: last })
}

/// Number of runs of each version that are read to find the gates at which most runs wait.
const SAMPLE: u32 = 64;

/// Maximum number of gates found in this way whose queues are counted.
const COUNTED: usize = 32;

/// Returns the gates with the longest queues, longest first.
///
/// Only some queues are counted, because counting all of them takes longer the more runs wait: the
/// queues in which the oldest runs of each version are, because a long queue usually has old runs,
/// and the queues of the gates in `known`, which the last query has returned.
pub fn busiest<E>(
    draft: &Draft,
    ws: &Workspace,
    known: &[GateKey],
    most: usize,
) -> Decided<Vec<(GateKey, GateView)>, E> {
    let catalog = draft.catalog(ws)?;
    let mut missing = Missing::default();
    let mut seen: BTreeMap<&GateKey, usize> = BTreeMap::new();
    for lane in catalog.lanes(&list::RunFilter::default()) {
        let rows = missing.note(draft.found(&Scan::Lane(lane, Seq(0)), SAMPLE))?;
        let runs = rows.into_iter().flatten().filter_map(Row::as_run);
        for run in runs.filter(|run| matches!(run.phase, Phase::Queued { .. })) {
            *run.plan
                .get(run.entered)
                .map_or(&mut 0, |need| seen.entry(&need.gate).or_default()) += 1;
        }
    }
    missing.settle()?;
    let mut keys: Vec<_> = seen.into_iter().collect();
    keys.sort_by_key(|(_, runs)| Reverse(*runs));
    let mut keys: Vec<_> = keys.into_iter().take(COUNTED).map(|(key, _)| key).collect();
    keys.extend(known);
    keys.sort();
    keys.dedup();
    let mut missing = Missing::default();
    let mut found = Vec::new();
    for key in keys {
        let row = missing.note(draft.row(&RowKey::Gate(key.clone())))?.flatten();
        found.extend(row.and_then(Row::as_gate).zip(key.scope()));
    }
    missing.settle()?;
    let shown = show_all(draft, &catalog, &found)?;
    let mut busy: Vec<_> = found.iter().map(|(gate, _)| gate.key.clone()).zip(shown).collect();
    let waits = |shown: &GateView| shown.line.as_ref().map_or(0, |line| line.count);
    busy.retain(|(_, shown)| waits(shown) > 0);
    busy.sort_by_key(|(_, shown)| Reverse(waits(shown)));
    busy.truncate(most);
    Ok(busy)
}

fn key_of(row: &Row) -> Option<GateKey> {
    row.as_gate().map(|gate| gate.key.clone())
}

fn fits(which: &GateFilter, scope: &Scope) -> bool {
    which.key.as_ref().is_none_or(|text| scope.shown_key().contains(text))
}

type Range = (Vec<u8>, Vec<u8>);

/// Returns the key ranges of the gates that a filter selects.
fn ranges(catalog: &Catalog, ws: &Workspace, which: &GateFilter) -> Vec<Range> {
    let of_pool = |class: Class| which.pool.is_none() || class.is_pooled();
    let selects = |class: Class| {
        of_pool(class)
            && class.is_listed()
            && match &which.control {
                Some(control) => class.control() == control,
                None => !matches!(class, Class::Dedupe | Class::Idempotency),
            }
    };
    let whole = which.app.is_none() && which.workflow.is_none() && which.pool.is_none();
    let mut ranges: Vec<Range> = Vec::new();
    let mut joined = false;
    for class in Class::ALL {
        for prefix in prefixes(catalog, ws, which, class).into_iter().filter(|_| selects(class)) {
            let mut end = prefix.clone();
            if let Some(byte) = end.last_mut() {
                // This cannot overflow: the byte is a class, a length or a byte of UTF-8, and these
                // are below 255.
                *byte += 1;
            }
            match ranges.last_mut().filter(|_| joined) {
                // The classes are neighbours, so that both ranges can be read as one.
                Some((_, to)) => *to = end,
                None => ranges.push((prefix, end)),
            }
        }
        joined = whole && selects(class);
    }
    ranges
}

fn prefixes(catalog: &Catalog, ws: &Workspace, which: &GateFilter, class: Class) -> Vec<Vec<u8>> {
    if let Some(pool) = &which.pool {
        return vec![GateKey::prefix(ws, class, "", pool)];
    }
    let Some(workflow) = &which.workflow else {
        let mut prefix = GateKey::class_prefix(ws, class);
        if let Some(app) = &which.app {
            push_part(&mut prefix, app.as_bytes());
        }
        return vec![prefix];
    };
    // All actions of a flow share one gate.
    let flow = workflow.split_once('/').map(|(flow, _)| flow).filter(|_| class == Class::Policy);
    let name = flow.unwrap_or(workflow);
    let mut apps: Vec<&str> = match &which.app {
        Some(app) => vec![app],
        None => catalog.entries().map(|((app, _), _)| app).collect(),
    };
    apps.sort_unstable();
    apps.dedup();
    apps.into_iter().map(|app| GateKey::prefix(ws, class, app, name)).collect()
}

/// Returns a scan of the part of a range that comes after a key; none if there is no such part.
fn rest((from, to): Range, after: Option<&GateKey>) -> Option<Scan> {
    let behind = after.map(|key| [key.as_bytes(), &[0]].concat());
    let from = behind.map_or(from.clone(), |behind| behind.max(from));
    (from < to).then_some(Scan::GatesBetween(from, to))
}

fn show_all<E>(
    draft: &Draft,
    catalog: &Catalog,
    gates: &[(&Gate, Scope)],
) -> Decided<Vec<GateView>, E> {
    let mut missing = Missing::default();
    let mut all = Vec::new();
    for (gate, scope) in gates {
        let mut shown = show(draft.now(), gate, scope, catalog.limit(scope, gate.state.numbers()));
        shown.from_data = gate.state.given().filter(|_| catalog.reads_limit(scope)).cloned();
        if matches!(gate.state, GateState::Slots(_)) {
            shown.adaptive = AdaptiveLimit::of(catalog, scope, gate.state.numbers());
        }
        shown.fair_by = catalog.fair(scope).map(|fair| fair.by.slot());
        shown.overrides = catalog.overrides().of(scope);
        shown.override_target = Target::of(scope);
        let has_line = match &gate.state {
            GateState::Slots(slots) => slots.head.is_some(),
            GateState::Turns(turns) => turns.head.is_some(),
            GateState::Meter(_)
            | GateState::Fold(_)
            | GateState::Claim(_)
            | GateState::Share(_) => false,
        };
        if has_line {
            shown.line = Some(line(draft, &mut missing, &gate.key)?);
        }
        all.push(shown);
    }
    missing.settle()?;
    Ok(all)
}

fn line<E>(draft: &Draft, missing: &mut Missing, key: &GateKey) -> Decided<QueueView, E> {
    let count = missing.note(draft.count(&Count::Queue(key.clone()), LINE))?.unwrap_or_default();
    let most = u32::try_from(NAMED).unwrap_or(u32::MAX);
    let rows = missing.note(draft.found(&Scan::Queue(key.clone()), most))?.unwrap_or_default();
    let runs: Vec<_> = rows.into_iter().filter_map(Row::as_run).take(NAMED).collect();
    Ok(QueueView {
        count,
        at_least: count >= LINE,
        first: runs.iter().map(|run| run.id).collect(),
        since: runs.iter().map(|run| run.queued_at).min(),
    })
}

fn show(now: Timestamp, gate: &Gate, scope: &Scope, limit: Limit) -> GateView {
    // Windows, buffers and claims have no limit.
    let limit = match &gate.state {
        GateState::Slots(_) | GateState::Turns(_) | GateState::Meter(_) => Some(limit),
        GateState::Fold(_) | GateState::Claim(_) | GateState::Share(_) => None,
    };
    let mut shown = GateView {
        control: scope.class.control(),
        app: scope.app.clone(),
        workflow: if scope.pool().is_some() { String::new() } else { scope.name.clone() },
        pool: scope.pool().map(str::to_owned),
        slot: scope.slot.clone(),
        key: scope.shown_key(),
        lets_in: limit.as_ref().map(words).unwrap_or_default(),
        closed: gate.state.closed(now).map(ClosedBy::from),
        ..GateView::default()
    };
    let rates = match limit {
        Some(Limit::Slots(most)) => {
            shown.limit = Some(most);
            Vec::new()
        }
        Some(Limit::Rates(rates)) => rates,
        Some(Limit::Open | Limit::Closed) | None => Vec::new(),
    };
    if let Some(rate) = rates.first() {
        (shown.limit, shown.per_ms) = (Some(rate.limit), Some(rate.per_ms));
        shown.burst = Some(rate.burst);
    }
    match &gate.state {
        GateState::Slots(slots) => {
            shown.inside = Some(slots.holders.len());
            shown.units = Some(slots.used()).filter(|used| *used != slots.holders.len() as u64);
            shown.holders = slots.holders.iter().take(NAMED).map(|hold| hold.run).collect();
            let draining = slots.holders.iter().filter(|hold| hold.draining);
            shown.draining = draining.take(NAMED).map(|hold| hold.run).collect();
            shown.line = Some(QueueView::default());
        }
        GateState::Turns(turns) => {
            shown.inside = Some(turns.pending.len());
            shown.line = Some(QueueView::default());
            let ahead = Ahead { through: &turns.pending, queued: 0 };
            metered(&mut shown, &turns.meters, &rates, (ahead, &turns.wanted), now);
            if let Some(closed) = &shown.closed {
                shown.tokens = shown.tokens.map(|_| 0);
                shown.next_at = shown.next_at.map(|at| at.max(closed.until));
            }
        }
        GateState::Meter(meters) => {
            metered(&mut shown, meters, &rates, (Ahead::NOBODY, &Costs::default()), now);
        }
        GateState::Fold(fold) => {
            shown.pending = Some(fold.count);
            shown.until = Some(fold.deadline).filter(|_| !fold.held && !fold.paused);
            shown.run_id = Some(fold.run);
        }
        GateState::Claim(claim) => {
            shown.event_id = Some(claim.event);
            shown.run_id = claim.run;
            shown.until = Some(claim.until);
        }
        GateState::Share(_) => {}
    }
    shown
}

fn metered(
    shown: &mut GateView,
    meters: &Meters,
    rates: &[Rate],
    (ahead, costs): (Ahead<'_>, &Costs),
    now: Timestamp,
) {
    let each = || rates.iter().enumerate();
    shown.tokens = each().map(|(n, rate)| tokens(meters.at(n), *rate, ahead.through(n), now)).min();
    // A turn that a run has and has not used yet has to be used first.
    let free = each().all(|(n, rate)| ahead.through(n) < u64::from(rate.burst));
    let turn =
        |(n, rate): (usize, &Rate)| turn(meters.at(n), *rate, (ahead.through(n), costs.at(n)), now);
    let next = each().map(turn).max();
    shown.next_at = next.filter(|_| free);
}

/// Returns how many more units would be admitted now.
fn tokens(meter: Option<Meter>, rate: Rate, ahead: u64, now: Timestamp) -> u64 {
    let fits = |more: u64| conforms(meter, rate, (ahead.saturating_add(more), 1), now).is_ok();
    // All numbers that fit come before all that do not.
    let (mut least, mut most) = (0, u64::from(rate.burst));
    while least < most {
        let middle = least.midpoint(most);
        if fits(middle) { least = middle + 1 } else { most = middle }
    }
    least
}
