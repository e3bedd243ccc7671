//! Flows and their actions. An action is a workflow that is started by a request, not by an event.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    definition::{Code, DefinitionErrors, Fields, Kind, Parsed, Problem, Problems},
    definition::{Context, DEFAULT_APP, Definition, read},
    flow::policy::Policy,
};

/// Maximum number of actions in one flow.
pub const MAX_ACTIONS: usize = 1000;

/// Named group of actions that share their sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    /// The app that the flow belongs to.
    pub app: String,
    /// The flow's name, unique in the app.
    pub name: String,
    /// The flow's actions, each with its effective policy: its own, else the flow's.
    pub actions: Vec<Definition>,
}

/// The fields of a flow.
const FIELDS: [&str; 4] = ["app", "name", "concurrency", "actions"];

impl Flow {
    /// Parses the definition of a flow and reports all of its problems.
    ///
    /// The field `concurrency` is the default policy of the actions. The field `actions` is a list,
    /// or an object with the names as keys.
    pub fn parse(value: &Value) -> Result<Parsed<Flow>, DefinitionErrors> {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut problems = Problems::new(Kind::Flow, name);
        let flow = read_flow(value, &mut problems);
        problems.finish(flow)
    }

    /// Checks a flow that was built in Rust by the rules of [`Flow::parse`], and returns the
    /// warnings.
    pub fn check(&self) -> Result<Vec<Problem>, DefinitionErrors> {
        Flow::parse(&self.to_value()).map(|parsed| parsed.warnings)
    }

    /// Returns the definition in the author's form, with the default policy written out at each
    /// action.
    pub fn to_value(&self) -> Value {
        let actions: Vec<Value> = self.actions.iter().map(Definition::to_value).collect();
        json!({"app": self.app, "name": self.name, "actions": actions})
    }
}

fn read_flow(value: &Value, problems: &mut Problems) -> Option<Flow> {
    let mut fields = Fields::open(value, "", &FIELDS, problems).ok()?;
    let app = fields.name("app").ok().flatten().unwrap_or(DEFAULT_APP);
    let name = match fields.name("name") {
        Ok(Some(name)) => name,
        Ok(None) => {
            fields.missing("name", "1 to 256 characters");
            ""
        }
        Err(_) => "",
    };
    if name.contains('/') {
        let message = format!("must not contain a slash, got `{name}`");
        fields.error(Code::BadName, "name", message);
    }
    let policy = fields.get("concurrency").and_then(|value| read_default(value, &mut fields));
    let listed = list_actions(&mut fields);
    let mut actions: Vec<Definition> = Vec::new();
    for (key, value) in listed {
        let context = Context::Inside { app, flow: name, policy: policy.as_ref() };
        let Some(action) = read_action(&key, &value, &context, name, fields.problems()) else {
            continue;
        };
        if actions.iter().any(|other| other.name == action.name) {
            let message = format!("contain `{}` twice: names must be unique", action.short_name());
            fields.error(Code::Conflict, "actions", message);
        }
        actions.push(action);
    }
    Some(Flow { app: app.to_owned(), name: name.to_owned(), actions })
}

/// Reads the flow's default policy. A flow has no limits: they are set per action.
fn read_default(value: &Value, fields: &mut Fields<'_>) -> Option<Policy> {
    if value.is_array() || value.get("limit").is_some() || value.get("type").is_some() {
        let message = "of a flow is a policy: give limits and handoff to its actions";
        fields.error(Code::Misplaced, "concurrency", message);
        return None;
    }
    Policy::read(value, "concurrency", fields.problems()).ok()
}

/// Returns the definitions of the actions, each with its path in the flow's definition.
fn list_actions(fields: &mut Fields<'_>) -> Vec<(String, Value)> {
    let rule = "a list of actions, or an object with an action for each name";
    let Some(value) = fields.get("actions") else {
        fields.missing("actions", rule);
        return Vec::new();
    };
    let listed: Vec<(String, Value)> = if let Some(list) = value.as_array() {
        list.iter().enumerate().map(|(n, value)| (format!("actions[{n}]"), value.clone())).collect()
    } else if let Some(map) = value.as_object() {
        map.iter().map(|(name, value)| (format!("actions.{name}"), named(name, value))).collect()
    } else {
        fields.error(Code::WrongType, "actions", format!("must be {rule}"));
        return Vec::new();
    };
    if listed.is_empty() || listed.len() > MAX_ACTIONS {
        let message = format!("must have 1 to {MAX_ACTIONS} elements, got {}", listed.len());
        fields.error(Code::OutOfRange, "actions", message);
        return Vec::new();
    }
    listed
}

/// Returns an action with its key in the object as its `name`, unless it has a `name` already;
/// `read_action` checks that the two are equal.
fn named(name: &str, value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut() {
        map.entry("name").or_insert_with(|| json!(name));
    }
    value
}

fn read_action(
    place: &str,
    value: &Value,
    context: &Context<'_>,
    flow: &str,
    problems: &mut Problems,
) -> Option<Definition> {
    if !value.is_object() {
        let message = format!("must be an object with a name, got {value}");
        problems.error(Code::WrongType, place, message);
        return None;
    }
    let name = value.get("name").and_then(Value::as_str).unwrap_or(place);
    let mut part = Problems::new(Kind::Action, &format!("{flow}/{name}"));
    if place.strip_prefix("actions.").is_some_and(|key| key != name) {
        part.error(Code::Conflict, "name", format!("differs from its key in `{place}`"));
    }
    let given = value.get("flow").and_then(Value::as_str);
    if given.is_some_and(|given| given != flow) {
        part.error(Code::Conflict, "flow", format!("must be `{flow}`, or be left out"));
    }
    let given = value.get("app").and_then(Value::as_str);
    if let (Context::Inside { app, .. }, Some(given)) = (context, given)
        && given != *app
    {
        let message =
            format!("must be `{app}`, the app of its flow, or be left out, got `{given}`");
        part.error(Code::Conflict, "app", message);
    }
    let action = read(value, context, &mut part);
    problems.adopt(part);
    action
}

#[cfg(test)]
mod tests;
