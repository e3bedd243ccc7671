//! Triggers: the events and schedules that start a workflow.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Overlap;
use crate::{
    definition::{Code, Fields, MAX_DURATION_MS, Problems, Reported},
    expr::Formula,
};

/// Trigger of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Trigger {
    /// Events with this name, or with a name that begins with this prefix.
    Event {
        /// The name or the prefix, without the star.
        name: String,
        /// Whether the author wrote a star at the end.
        prefix: bool,
        /// The condition under which such an event starts the workflow.
        #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
        condition: Option<Formula>,
    },
    /// A schedule.
    Cron {
        /// The cron expression: five fields, six with seconds, or a word such as `@daily`.
        cron: String,
        /// The time zone of the expression.
        time_zone: String,
        /// What happens to an occurrence while the last run of this schedule has not ended.
        on_overlap: Overlap,
        /// Maximum delay: an occurrence that is later than this is skipped. None means
        /// [`CATCH_UP_MS`]; none is not stored, so that older definitions stay unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        catch_up_ms: Option<u64>,
        /// The display name, if one is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Events with this name that are committed to any stream. Such an event is posted with
    /// `stream:` in front of its name.
    Stream {
        /// The event's name, or a prefix of names with a star at the end.
        name: String,
        /// The condition under which such an event starts the workflow.
        #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
        condition: Option<Formula>,
    },
}

/// Prefix of the name of an event from a stream.
pub const STREAM_PREFIX: &str = "stream:";

/// Default of `catchUpMs`: an occurrence that is delayed by up to an hour still starts. An hour is
/// enough for a restart or an upgrade.
pub const CATCH_UP_MS: u64 = 3_600_000;

/// Minimum of `catchUpMs`: an engine that is only busy must not skip occurrences.
pub const MIN_CATCH_UP_MS: u64 = 10_000;

/// Time zone of a schedule that names none.
const DEFAULT_ZONE: &str = "UTC";

impl Trigger {
    /// Creates an event trigger from text: a name, or a prefix with a star at the end.
    pub fn event(text: &str) -> Trigger {
        let (name, prefix) = match text.strip_suffix('*') {
            Some(start) => (start.to_owned(), true),
            None => (text.to_owned(), false),
        };
        Trigger::Event { name, prefix, condition: None }
    }

    /// Whether an event of this name starts the workflow, if the condition holds.
    pub fn matches(&self, event: &str) -> bool {
        match self {
            Trigger::Event { name, prefix: true, .. } => event.starts_with(name.as_str()),
            Trigger::Event { name, prefix: false, .. } => event == name,
            Trigger::Stream { name, .. } => {
                let of_stream = event.strip_prefix(STREAM_PREFIX);
                of_stream.is_some_and(|event| Trigger::event(name).matches(event))
            }
            Trigger::Cron { .. } => false,
        }
    }

    /// Returns the condition of the trigger.
    pub fn condition(&self) -> Option<&Formula> {
        match self {
            Trigger::Event { condition, .. } | Trigger::Stream { condition, .. } => {
                condition.as_ref()
            }
            Trigger::Cron { .. } => None,
        }
    }

    /// Returns a trigger for stream events as an event trigger, with `stream:` in front of the
    /// name, and without its condition; none for other triggers.
    pub fn of_stream(&self) -> Option<Trigger> {
        match self {
            Trigger::Event { name, prefix, .. } if name.starts_with(STREAM_PREFIX) => {
                Some(Trigger::Event { name: name.clone(), prefix: *prefix, condition: None })
            }
            Trigger::Stream { name, .. } => Some(Trigger::event(&format!("{STREAM_PREFIX}{name}"))),
            Trigger::Event { .. } | Trigger::Cron { .. } => None,
        }
    }

    /// Returns the trigger without its display name, which has no effect on runs.
    pub(crate) fn unnamed(&self) -> Trigger {
        let mut unnamed = self.clone();
        if let Trigger::Cron { name, .. } = &mut unnamed {
            *name = None;
        }
        unnamed
    }

    /// Returns the id of the schedule: its cron expression, and its time zone if that is not UTC. A
    /// changed expression makes another schedule. None if the trigger is not a schedule.
    pub fn schedule(&self) -> Option<String> {
        match self {
            Trigger::Cron { cron, time_zone, .. } if time_zone == DEFAULT_ZONE => {
                Some(cron.clone())
            }
            Trigger::Cron { cron, time_zone, .. } => Some(format!("{cron} {time_zone}")),
            Trigger::Event { .. } | Trigger::Stream { .. } => None,
        }
    }

    /// Reads a trigger: an event's name, or an object with a field for its kind.
    pub(crate) fn read(
        value: &Value,
        at: &str,
        problems: &mut Problems,
    ) -> Result<Trigger, Reported> {
        if value.is_string() {
            let value = json!({"event": value});
            return Trigger::read(&value, at, problems);
        }
        let other = value.get("event").or(value.get("stream"));
        let known: &[&str] = if value.get("cron").is_some() && other.is_none() {
            &["cron", "timeZone", "onOverlap", "catchUpMs", "name"]
        } else {
            &["event", "cron", "stream", "if"]
        };
        let mut fields = Fields::open(value, at, known, problems)?;
        let event = fields.name("event");
        let stream = fields.name("stream");
        let cron = fields.name("cron");
        let condition = fields.formula("if");
        match (event?, stream?, cron?) {
            (Some(event), None, None) => {
                starred(event, "event", &mut fields)?;
                Ok(Trigger::event(event).under(condition?))
            }
            (None, Some(stream), None) => {
                starred(stream, "stream", &mut fields)?;
                Ok(Trigger::Stream { name: stream.to_owned(), condition: condition? })
            }
            (None, None, Some(cron)) => read_cron(cron, &mut fields),
            (None, None, None) => {
                Err(fields.missing("event", "an event's name, or `cron`, or `stream`"))
            }
            _ => {
                let fix = "write one trigger for each";
                Err(fields.error(Code::Conflict, "event", format!("cannot share a trigger: {fix}")))
            }
        }
    }

    /// Returns an event trigger with a condition.
    fn under(mut self, wanted: Option<Formula>) -> Trigger {
        if let Trigger::Event { condition, .. } = &mut self {
            *condition = wanted;
        }
        self
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Trigger::Event { name, prefix, condition } => {
                let name = format!("{name}{}", if *prefix { "*" } else { "" });
                match condition {
                    Some(condition) => json!({"event": name, "if": condition}),
                    None => json!(name),
                }
            }
            Trigger::Stream { name, condition: Some(condition) } => {
                json!({"stream": name, "if": condition})
            }
            Trigger::Stream { name, condition: None } => json!({"stream": name}),
            Trigger::Cron { cron, time_zone, on_overlap, catch_up_ms, name } => {
                let mut value = json!({"cron": cron});
                if time_zone != DEFAULT_ZONE {
                    value["timeZone"] = json!(time_zone);
                }
                if *on_overlap != Overlap::default() {
                    value["onOverlap"] = on_overlap.to_value();
                }
                if let Some(window) = catch_up_ms {
                    value["catchUpMs"] = json!(window);
                }
                if let Some(name) = name {
                    value["name"] = json!(name);
                }
                value
            }
        }
    }
}

/// Reports a star that is not at the end of a name.
fn starred(text: &str, field: &'static str, fields: &mut Fields<'_>) -> Result<(), Reported> {
    if text.strip_suffix('*').unwrap_or(text).contains('*') {
        let rule = "may have one star, at its end";
        let fix = "write one trigger for each beginning";
        let message = format!("{rule}, got `{text}`: {fix}");
        return Err(fields.error(Code::BadName, field, message));
    }
    Ok(())
}

/// Reads a schedule. Only the number of fields is checked here; the engine, which has a calendar,
/// checks the fields at registration.
fn read_cron(cron: &str, fields: &mut Fields<'_>) -> Result<Trigger, Reported> {
    let time_zone = fields.name("timeZone");
    let catch_up_ms = fields.number("catchUpMs", MIN_CATCH_UP_MS, MAX_DURATION_MS);
    let name = fields.name("name");
    let at = fields.field("onOverlap");
    let on_overlap = fields.get("onOverlap");
    let on_overlap = on_overlap.map(|value| Overlap::read(value, &at, fields.problems()));
    let parts = cron.split_whitespace().count();
    if !cron.starts_with('@') && parts != 5 && parts != 6 {
        let rule = "must have five fields, or six with seconds";
        let message = format!("{rule}, got {parts} in `{cron}`");
        return Err(fields.error(Code::BadCron, "cron", message));
    }
    Ok(Trigger::Cron {
        cron: cron.to_owned(),
        time_zone: time_zone?.unwrap_or(DEFAULT_ZONE).to_owned(),
        on_overlap: on_overlap.transpose()?.unwrap_or_default(),
        catch_up_ms: catch_up_ms?,
        name: name?.map(str::to_owned),
    })
}
