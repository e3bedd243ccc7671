//! The reader of definitions: it checks each field first, then the rules between controls.
//!
//! A control with an error is left out when these rules are checked, so that one mistake gives
//! one message.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    DEFAULT_APP, Definition, EndEvents, EventMatch, MAX_CALL_TIMEOUT_MS, MAX_LIMITS, MAX_TRIGGERS,
    OnFailure, OnTooMany, Remote, Retry, Trigger, Written, rules, url::read_url,
};
use crate::{
    definition::{Code, Fields, Kind, MAX_DESCRIPTION_CHARS, Problems, Reported},
    flow::{CONTROLS, control::Reading, policy::Policy},
    schema,
};

/// Where a definition is written: alone, or inside a flow.
#[derive(Debug)]
pub(crate) enum Context<'a> {
    /// The definition is not inside a flow. If it is an action, it has the field `flow`.
    Alone,
    /// The definition is inside a flow, which may have a default policy.
    Inside { app: &'a str, flow: &'a str, policy: Option<&'a Policy> },
}

/// The fields other than the controls.
const FIELDS: [&str; 16] = [
    "app",
    "name",
    "version",
    "triggers",
    "waitsFor",
    "retry",
    "timeoutMs",
    "url",
    "remote",
    "endEvents",
    "callTimeoutMs",
    "onTooMany",
    "onFailure",
    "compensateTimeoutMs",
    "description",
    "schema",
];

/// Reads one workflow or action. The result is valid only if no error was reported.
pub(crate) fn read(
    value: &Value,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<Definition> {
    let mut known: Vec<&str> = FIELDS.to_vec();
    if problems.kind == Kind::Action {
        known.push("flow");
    }
    known.extend(CONTROLS.iter().map(|control| control.name));
    let mut fields = Fields::open(value, "", &known, problems).ok()?;
    let mut workflow = read_names(&mut fields, context);
    workflow.written = Written::of(value);
    workflow.version = fields.optional_count("version").unwrap_or_default();
    workflow.timeout_ms = fields.optional_duration("timeoutMs").unwrap_or_default();
    workflow.on_failure = OnFailure::read(&mut fields).unwrap_or_default();
    if let Ok(Some(ms)) = fields.optional_duration("compensateTimeoutMs") {
        workflow.compensate_timeout_ms = ms;
    }
    workflow.url = read_url(&mut fields).unwrap_or_default();
    workflow.remote = Remote::read(&mut fields).unwrap_or_default();
    workflow.end_events = EndEvents::read(&mut fields).unwrap_or_default();
    workflow.call_timeout_ms =
        fields.number("callTimeoutMs", 1, MAX_CALL_TIMEOUT_MS).unwrap_or_default();
    workflow.on_too_many = OnTooMany::read(&mut fields).unwrap_or_default();
    workflow.description = read_description(&mut fields).unwrap_or_default();
    workflow.schema = fields.get("schema").cloned();
    if let Some(schema) = &workflow.schema {
        schema::read(schema, "schema", fields.problems());
    }
    workflow.triggers = read_triggers(&mut fields);
    workflow.waits_for = read_waits_for(&mut fields);
    if let Some(value) = fields.get("retry")
        && let Ok(mut retry) = Fields::open(value, "retry", Retry::FIELDS, fields.problems())
    {
        workflow.retry = Retry::read(&mut retry).unwrap_or_default();
    }
    let mut reading = Reading { definition: workflow, places: BTreeMap::new(), problems };
    reading.controls(value);
    if let Context::Inside { policy, .. } = context
        && reading.definition.policy.is_none()
    {
        reading.definition.policy = policy.cloned();
        reading.definition.written.forget("concurrency");
    }
    let plain = reading.definition.plain_controls();
    reading.definition.written.keep_unlike(&plain);
    reading.check();
    rules::check(&reading.definition, reading.problems);
    Some(reading.definition)
}

fn read_names(fields: &mut Fields<'_>, context: &Context<'_>) -> Definition {
    let app = fields.name("app").unwrap_or_default();
    let flow = match context {
        Context::Alone => fields.name("flow").unwrap_or_default(),
        Context::Inside { flow, .. } => Some(*flow),
    };
    let name = match fields.name("name") {
        Ok(Some(name)) => name,
        Ok(None) => {
            fields.missing("name", "1 to 256 characters");
            ""
        }
        Err(Reported { .. }) => "",
    };
    if name.contains('*') {
        let message = format!("must not contain a star, got `{name}`: only triggers have stars");
        fields.error(Code::BadName, "name", message);
    }
    let app = match context {
        Context::Alone => app.unwrap_or(DEFAULT_APP),
        Context::Inside { app: of_flow, .. } => of_flow,
    };
    let Some(flow) = flow else { return Definition::new(app, name) };
    for (field, text) in [("flow", flow), ("name", name)] {
        // In the full name a slash separates flow and action. If the definition is inside a flow,
        // the reader of the flow has checked the flow's name.
        let reported = field == "flow" && matches!(context, Context::Inside { .. });
        if text.contains('/') && !reported {
            let message = format!("must not contain a slash in a flow, got `{text}`");
            fields.error(Code::BadName, field, message);
        }
    }
    let mut workflow = Definition::new(app, &format!("{flow}/{name}"));
    workflow.flow = Some(flow.to_owned());
    workflow
}

fn read_description(fields: &mut Fields<'_>) -> Result<Option<String>, Reported> {
    let Some(text) = fields.text("description")? else { return Ok(None) };
    let chars = text.chars().count();
    if chars > MAX_DESCRIPTION_CHARS {
        let message = format!("must have at most {MAX_DESCRIPTION_CHARS} characters, got {chars}");
        return Err(fields.error(Code::OutOfRange, "description", message));
    }
    Ok(Some(text.to_owned()))
}

/// Reads one trigger or a list of triggers.
fn read_triggers(fields: &mut Fields<'_>) -> Vec<Trigger> {
    let Some(value) = fields.get("triggers") else { return Vec::new() };
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    if list.len() > MAX_TRIGGERS {
        let message = format!("must have at most {MAX_TRIGGERS} elements, got {}", list.len());
        fields.error(Code::OutOfRange, "triggers", message);
        return Vec::new();
    }
    let problems = fields.problems();
    let places = list.iter().enumerate();
    places
        .filter_map(|(n, value)| Trigger::read(value, &format!("triggers[{n}]"), problems).ok())
        .collect()
}

/// Reads one event that runs receive before they wait for it, or a list of them.
fn read_waits_for(fields: &mut Fields<'_>) -> Vec<EventMatch> {
    let Some(value) = fields.get("waitsFor") else { return Vec::new() };
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    if list.is_empty() || list.len() > MAX_LIMITS {
        let message = format!("must have 1 to {MAX_LIMITS} elements, got {}", list.len());
        fields.error(Code::OutOfRange, "waitsFor", message);
        return Vec::new();
    }
    let mut events: Vec<EventMatch> = Vec::new();
    for (n, value) in list.iter().enumerate() {
        let at = format!("waitsFor[{n}]");
        let entry = Fields::open(value, &at, &["event", "match"], fields.problems());
        let Ok(entry) = entry.and_then(|mut entry| EventMatch::read(&mut entry)) else { continue };
        if events.iter().any(|other| other.event == entry.event) {
            let message = format!("must name each event once, got `{}` again", entry.event);
            fields.problems().error(Code::Conflict, &format!("{at}.event"), message);
        }
        events.push(entry);
    }
    events
}
