//! Schedule queries: the schedules of the current releases, with their state.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::{
    catalog::{Catalog, Current},
    definition::{CATCH_UP_MS, Trigger},
    draft::{Decided, Draft, Missing},
    id::ScheduleId,
    row::{Occurred, Row, RowKey, Schedule, Workspace},
    time::{
        Timestamp,
        rfc3339::{OptionalTime, Time, Times},
    },
};

/// Filter of schedules; an absent field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleFilter {
    /// Schedules of this app.
    pub app: Option<String>,
    /// Schedules of this workflow.
    pub workflow: Option<String>,
    /// The schedule with this id.
    pub id: Option<ScheduleId>,
}

/// Position in the list of schedules: app, workflow and schedule.
pub type Place = (String, String, String);

/// Page of schedules.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulePage {
    /// The schedules.
    pub schedules: Vec<ScheduleView>,
    /// The cursor of the next page; none on the last page.
    pub next: Option<Place>,
}

/// Schedule of a current release.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Schedule"))]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    /// The id for pause and resume.
    pub id: ScheduleId,
    /// The app.
    pub app: String,
    /// The workflow.
    pub workflow: String,
    /// The flow, for an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The action's name without the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name of the schedule in runs, receipts and gates: its expression and its time zone.
    pub schedule: String,
    /// The cron expression.
    pub cron: String,
    /// The time zone of the expression.
    pub time_zone: String,
    /// The overlap policy, in the author's notation.
    pub on_overlap: Value,
    /// Maximum delay: an occurrence that is later than this is skipped.
    pub catch_up_ms: u64,
    /// Whether a user has paused the schedule.
    pub paused: bool,
    /// When the schedule was paused.
    #[serde(skip_serializing_if = "Option::is_none", with = "OptionalTime")]
    pub paused_at: Option<Timestamp>,
    /// The last occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Last>,
    /// The next occurrences. This module gives only the planned one; the engine, which has a
    /// calendar, adds the others.
    #[serde(with = "Times")]
    pub next: Vec<Timestamp>,
}

/// Occurrence that took place or was skipped.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "LastOccurrence"))]
#[serde(rename_all = "camelCase")]
pub struct Last {
    /// The planned time.
    #[serde(with = "Time")]
    pub planned_at: Timestamp,
    /// The outcome; none in databases of older builds, which did not store it.
    #[serde(flatten)]
    pub told: Option<Occurred>,
}

/// Returns schedules in the order of app, workflow and expression, from the one after `after`.
pub fn list<E>(
    draft: &Draft,
    ws: &Workspace,
    which: &ScheduleFilter,
    after: Option<&Place>,
    limit: u32,
) -> Decided<SchedulePage, E> {
    let catalog = draft.catalog(ws)?;
    let mut all: BTreeMap<Place, ScheduleView> = defined(&catalog, which).collect();
    if let Some(after) = after {
        all.retain(|place, _| place > after);
    }
    let more = all.len() > limit as usize;
    let (mut missing, mut schedules, mut next) = (Missing::default(), Vec::new(), None);
    for (place, mut shown) in all.into_iter().take(limit as usize) {
        let (app, workflow, schedule) = place.clone();
        let key = RowKey::Schedule(ws.clone(), app, workflow, schedule);
        if let Some(Some(Row::Schedule(row))) = missing.note(draft.row(&key))? {
            shown.fill(row);
        }
        schedules.push(shown);
        next = Some(place).filter(|_| more);
    }
    missing.settle()?;
    Ok(SchedulePage { schedules, next })
}

/// Returns the schedules of the current releases.
fn defined(
    catalog: &Catalog,
    which: &ScheduleFilter,
) -> impl Iterator<Item = (Place, ScheduleView)> {
    let is =
        |wanted: &Option<String>, it: &str| wanted.as_deref().is_none_or(|wanted| wanted == it);
    let entries = catalog
        .entries()
        .filter(move |((app, name), _)| is(&which.app, app) && is(&which.workflow, name));
    let open = entries.filter_map(|(_, entry)| entry.open());
    open.flat_map(|current| current.workflow.triggers.iter().filter_map(|it| show(current, it)))
        .filter(|(_, shown)| which.id.is_none_or(|id| id == shown.id))
}

fn show(current: &Current, trigger: &Trigger) -> Option<(Place, ScheduleView)> {
    let schedule = trigger.schedule()?;
    let Trigger::Cron { cron, time_zone, on_overlap, catch_up_ms, name } = trigger else {
        return None;
    };
    let workflow = &current.workflow;
    let shown = ScheduleView {
        id: ScheduleId::new(&workflow.app, &workflow.name, &schedule),
        app: workflow.app.clone(),
        workflow: workflow.name.clone(),
        flow: workflow.flow.clone(),
        action: workflow.flow.as_ref().map(|_| workflow.short_name().to_owned()),
        name: name.clone(),
        schedule: schedule.clone(),
        cron: cron.clone(),
        time_zone: time_zone.clone(),
        on_overlap: on_overlap.to_value(),
        catch_up_ms: catch_up_ms.unwrap_or(CATCH_UP_MS),
        paused: false,
        paused_at: None,
        last: None,
        next: Vec::new(),
    };
    Some(((workflow.app.clone(), workflow.name.clone(), schedule), shown))
}

impl ScheduleView {
    fn fill(&mut self, row: &Schedule) {
        (self.paused, self.paused_at) = (row.paused_at.is_some(), row.paused_at);
        self.next = row.next.into_iter().collect();
        self.last = row.last.map(|planned_at| {
            let told = row.outcome.clone();
            Last { planned_at, told }
        });
    }
}
