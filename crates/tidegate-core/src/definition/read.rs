//! The reader of definitions: the shape first, then the rules between controls.
//!
//! A control with a problem is left out of what the rules see, so that one mistake gives one
//! message.

use serde_json::Value;

use super::{
    DEFAULT_APP, Definition, MAX_CALL_TIMEOUT_MS, MAX_LIMITS, MAX_TRIGGERS, OnFailure, Retry,
    Trigger, Written, rules, url::read_url,
};
use crate::{
    definition::{Code, Fields, Kind, MAX_DESCRIPTION_CHARS, Problems, Reported},
    flow::{
        CONTROLS, batch::Batch, concurrency::Concurrency, debounce::Debounce, handoff::Handoff,
        idempotency::Idempotency, policy::Policy, priority::Priority, rate_limit::RateLimit,
        singleton::Singleton, throttle::Throttle,
    },
    schema,
};

/// Where a definition stands.
#[derive(Debug)]
pub(crate) enum Context<'a> {
    /// By itself; an action names its flow then.
    Alone,
    /// In a flow, with the flow's default policy.
    Inside { app: &'a str, flow: &'a str, policy: Option<&'a Policy> },
}

/// The fields beside the controls.
const FIELDS: [&str; 12] = [
    "app",
    "name",
    "version",
    "triggers",
    "retry",
    "timeoutMs",
    "url",
    "callTimeoutMs",
    "onFailure",
    "compensateTimeoutMs",
    "description",
    "schema",
];

/// Reads one workflow or action. What comes back holds only if no error was reported.
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
    workflow.call_timeout_ms =
        fields.number("callTimeoutMs", 1, MAX_CALL_TIMEOUT_MS).unwrap_or_default();
    workflow.description = read_description(&mut fields).unwrap_or_default();
    workflow.schema = fields.get("schema").cloned();
    if let Some(schema) = &workflow.schema {
        schema::read(schema, "schema", fields.problems());
    }
    workflow.triggers = read_triggers(&mut fields);
    if let Some(value) = fields.get("retry")
        && let Ok(mut retry) = Fields::open(value, "retry", Retry::FIELDS, fields.problems())
    {
        workflow.retry = Retry::read(&mut retry).unwrap_or_default();
    }
    let (limits_at, handoff) = read_concurrency(&mut fields, &mut workflow);
    if let Context::Inside { policy, .. } = context
        && workflow.policy.is_none()
    {
        workflow.policy = policy.cloned();
        workflow.written.forget("concurrency");
    }
    workflow.singleton = control(&mut fields, "singleton", Singleton::read);
    workflow.throttle = control(&mut fields, "throttle", Throttle::read);
    workflow.rate_limit = control(&mut fields, "rateLimit", RateLimit::read);
    workflow.debounce = control(&mut fields, "debounce", Debounce::read);
    workflow.batch = control(&mut fields, "batch", Batch::read);
    workflow.priority = control(&mut fields, "priority", Priority::read);
    workflow.idempotency = control(&mut fields, "idempotency", Idempotency::read);
    workflow.handoff = control(&mut fields, "handoff", Handoff::read);
    if handoff.is_some() && fields.get("handoff").is_some() {
        let fix = "keep one of the two";
        fields.error(Code::Conflict, "handoff", format!("is also given as concurrency: {fix}"));
    }
    if handoff.is_some() {
        workflow.written.forget("concurrency");
    }
    workflow.handoff = workflow.handoff.or(handoff);
    let plain = workflow.plain_controls();
    workflow.written.keep_unlike(&plain);
    rules::check(&workflow, &limits_at, problems);
    Some(workflow)
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
        let message = format!("cannot hold a star, got `{name}`: stars belong into triggers");
        fields.error(Code::BadName, "name", message);
    }
    let app = match context {
        Context::Alone => app.unwrap_or(DEFAULT_APP),
        Context::Inside { app: of_flow, .. } => of_flow,
    };
    let Some(flow) = flow else { return Definition::new(app, name) };
    for (field, text) in [("flow", flow), ("name", name)] {
        // The slash stands between the two in the full name. A flow around it says so itself.
        let told = field == "flow" && matches!(context, Context::Inside { .. });
        if text.contains('/') && !told {
            let message = format!("cannot hold a slash in a flow, got `{text}`");
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

/// One trigger or a list of them.
fn read_triggers(fields: &mut Fields<'_>) -> Vec<Trigger> {
    let Some(value) = fields.get("triggers") else { return Vec::new() };
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    if list.len() > MAX_TRIGGERS {
        let message = format!("must hold at most {MAX_TRIGGERS}, got {}", list.len());
        fields.error(Code::OutOfRange, "triggers", message);
        return Vec::new();
    }
    let problems = fields.problems();
    let places = list.iter().enumerate();
    places
        .filter_map(|(n, value)| Trigger::read(value, &format!("triggers[{n}]"), problems).ok())
        .collect()
}

/// Reads a control with the reader of its file.
fn control<T>(
    fields: &mut Fields<'_>,
    name: &'static str,
    read: fn(&mut Fields<'_>) -> Result<T, Reported>,
) -> Option<T> {
    let value = fields.get(name)?;
    let row = CONTROLS.iter().find(|row| row.name == name).expect("every control has its row");
    if fields.problems().kind != Kind::Workflow && !row.on_actions {
        let fix = "make it a workflow that the action sends events to";
        fields.error(Code::Misplaced, name, format!("cannot stand on an action: {fix}"));
        return None;
    }
    let mut fields = Fields::open(value, name, row.fields, fields.problems()).ok()?;
    read(&mut fields).ok()
}

/// Reads `concurrency` in all its spellings; gives the places of the limits, and a handoff.
fn read_concurrency(
    fields: &mut Fields<'_>,
    workflow: &mut Definition,
) -> (Vec<String>, Option<Handoff>) {
    let (mut places, mut handoff) = (Vec::new(), None);
    let Some(value) = fields.get("concurrency") else { return (places, handoff) };
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    if list.is_empty() || list.len() > MAX_LIMITS {
        let message = format!("must hold 1 to {MAX_LIMITS} limits, got {}", list.len());
        fields.error(Code::OutOfRange, "concurrency", message);
        return (places, handoff);
    }
    let problems = fields.problems();
    for (n, entry) in list.iter().enumerate() {
        let place = format!("concurrency[{n}]");
        let at = if value.is_array() { place.as_str() } else { "concurrency" };
        if entry.is_string() || entry.get("policy").is_some() {
            let policy = read_policy(entry, at, problems);
            keep(&mut workflow.policy, policy, "policy", at, problems);
        } else if entry.get("type").is_some() {
            let known = known_fields("handoff");
            let read = Fields::open(entry, at, known, problems)
                .and_then(|mut fields| Handoff::read(&mut fields));
            keep(&mut handoff, read, "handoff", at, problems);
        } else {
            let known = known_fields("concurrency");
            let read = Fields::open(entry, at, known, problems)
                .and_then(|mut fields| Concurrency::read(&mut fields));
            if let Ok(limit) = read {
                workflow.concurrency.push(limit);
                places.push(at.to_owned());
            }
        }
    }
    (places, handoff)
}

fn read_policy(entry: &Value, at: &str, problems: &mut Problems) -> Result<Policy, Reported> {
    if problems.kind == Kind::Workflow {
        let fix = "write `{\"limit\": …}`, or use singleton";
        let message = format!("cannot be a policy, those are for actions: {fix}");
        return Err(problems.error(Code::Misplaced, at, message));
    }
    Policy::read(entry, at, problems)
}

/// Keeps the first of a kind, and reports a second one.
fn keep<T>(
    slot: &mut Option<T>,
    read: Result<T, Reported>,
    word: &str,
    at: &str,
    problems: &mut Problems,
) {
    let Ok(value) = read else { return };
    if slot.is_some() {
        problems.error(Code::Conflict, at, format!("is a second {word}: keep one of them"));
    } else {
        *slot = Some(value);
    }
}

fn known_fields(name: &str) -> &'static [&'static str] {
    CONTROLS.iter().find(|row| row.name == name).map_or(&[], |row| row.fields)
}
