//! Parsing of definitions: checks the rules of the core, and cron expressions and time zones, which
//! the core does not know.
//!
//! The problems found by either check are reported together.

use serde_json::Value;
use tidegate_core::{
    action::Flow,
    definition::{Definition, DefinitionErrors, Parsed, Problem},
    pool::Pool,
};

use crate::{cron::Cron, flow::written_actions};

/// Parses a workflow, or an action that names its flow.
pub(crate) fn workflow(definition: &Value) -> Result<Parsed<Definition>, Vec<Problem>> {
    let parsed = Definition::parse(definition);
    let known = parsed.as_ref().err();
    let problems = schedule_problems(definition, definition.get("flow"), known);
    together(parsed, problems)
}

/// Parses a flow with its actions.
pub(crate) fn flow(definition: &Value) -> Result<Parsed<Flow>, Vec<Problem>> {
    let actions = definition.get("actions").cloned().map(written_actions).unwrap_or_default();
    let parsed = Flow::parse(definition);
    let (name, known) = (definition.get("name"), parsed.as_ref().err());
    let problems = actions.iter().flat_map(|action| schedule_problems(action, name, known));
    let problems = problems.collect();
    together(parsed, problems)
}

/// Parses a pool.
pub(crate) fn pool(declaration: &Value) -> Result<Parsed<Pool>, Vec<Problem>> {
    Pool::parse(declaration).map_err(|errors| errors.0)
}

fn together<T>(
    parsed: Result<Parsed<T>, DefinitionErrors>,
    schedules: Vec<Problem>,
) -> Result<Parsed<T>, Vec<Problem>> {
    match parsed {
        Ok(parsed) if schedules.is_empty() => Ok(parsed),
        Ok(_) => Err(schedules),
        Err(DefinitionErrors(problems)) => Err(problems.into_iter().chain(schedules).collect()),
    }
}

/// Finds schedules with an invalid expression or time zone, also in a definition with other
/// problems. A trigger that the core has refused is not reported again.
fn schedule_problems(
    definition: &Value,
    flow: Option<&Value>,
    known: Option<&DefinitionErrors>,
) -> Vec<Problem> {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    let name = match flow.and_then(Value::as_str) {
        Some(flow) => format!("{flow}/{name}"),
        None => name.to_owned(),
    };
    let triggers = match definition.get("triggers") {
        Some(Value::Array(triggers)) => triggers.as_slice(),
        Some(trigger) => std::slice::from_ref(trigger),
        None => &[],
    };
    let bad = triggers.iter().enumerate().filter_map(|(n, trigger)| {
        let cron = trigger.get("cron")?.as_str()?;
        let time_zone = trigger.get("timeZone").map_or(Some("UTC"), Value::as_str)?;
        let error = Cron::parse(cron, time_zone).err()?;
        let (code, message) = (error.kind(), error.to_string());
        let (subject, field) = (format!("workflow `{name}`"), format!("triggers[{n}]"));
        let named = format!("`{name}`");
        let is_known = |it: &Problem| it.field.starts_with(&field) && it.subject.ends_with(&named);
        let is_new = !known.is_some_and(|known| known.0.iter().any(is_known));
        is_new.then(|| Problem { code, subject, field: field.clone(), message })
    });
    bad.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn codes<T>(parsed: Result<Parsed<T>, Vec<Problem>>) -> Vec<(String, &'static str)> {
        let problems = parsed.err().unwrap_or_default();
        problems.into_iter().map(|it| (it.field, it.code.as_str())).collect()
    }

    #[test]
    fn a_bad_limit_hides_no_bad_schedule() {
        let definition = json!({
            "name": "report",
            "triggers": [{ "cron": "61 * * * *" }, { "cron": "@daily", "timeZone": "Mars" }],
            "concurrency": { "limit": 0 },
        });
        let schedules =
            [("triggers[0]", "bad_cron"), ("triggers[1]", "unknown_time_zone")].map(owned);
        let found = codes(workflow(&definition));
        assert_eq!(found[0], owned(("concurrency.limit", "out_of_range")));
        assert_eq!(found[1..], schedules);
        let found = codes(flow(&json!({ "name": "f", "actions": [definition] })));
        assert!(found.len() > 2, "{found:?}");
        assert_eq!(found[found.len() - 2..], schedules);
        let by_name = json!({ "report": { "triggers": { "cron": "x" } } });
        let found = codes(flow(&json!({ "name": "f", "actions": by_name })));
        assert_eq!(found, [owned(("triggers[0].cron", "bad_cron"))], "said once");
    }

    fn owned((field, code): (&str, &'static str)) -> (String, &'static str) {
        (field.to_owned(), code)
    }
}
