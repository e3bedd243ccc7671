//! Fields of definitions and events, parsed at each use.

use serde_json::Value;

use super::{Place, Time};

/// Returns a text field.
pub(super) fn text(of: &Value, field: &str) -> Option<String> {
    of.get(field)?.as_str().map(str::to_owned)
}

/// Returns a number field.
pub(super) fn number(of: &Value, field: &str) -> Option<i128> {
    of.get(field)?.as_u64().map(i128::from)
}

/// Returns a field in milliseconds, as microseconds.
pub(super) fn ms(of: &Value, field: &str) -> Option<Time> {
    number(of, field).map(|ms| ms * 1000)
}

/// Returns a count field.
pub(super) fn count(of: &Value, field: &str) -> Option<usize> {
    of.get(field)?.as_u64().and_then(|count| usize::try_from(count).ok())
}

/// Returns the version of a definition.
pub(super) fn version(def: &Value) -> i128 {
    number(def, "version").unwrap_or(1)
}

/// Returns the scalar at a dotted path, as text that differs for different types; `None` if it is
/// missing (spec keys).
pub(super) fn key_of(data: &Value, path: &str) -> Option<String> {
    let found = path.split('.').try_fold(data, |at, name| {
        let list = at.as_array();
        list.map_or_else(|| at.get(name), |list| list.get(name.parse::<usize>().ok()?))
    })?;
    match found {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        // The numbers of the tests are integers, some of them written with a decimal point.
        Value::Number(number) => Some(number.as_f64()?.to_string()),
        Value::Bool(_) | Value::String(_) => Some(found.to_string()),
    }
}

/// Builds the scope of a control of an owner, with a key.
pub(super) fn place(owner: &str, control: &str, key: Option<String>) -> Place {
    Place { owner: owner.to_owned(), control: control.to_owned(), key }
}

/// Builds the scope of a control with an optional `key`.
pub(super) fn scoped(name: &str, control: &str, def: &Value, data: &Value) -> Place {
    let path = text(&def[control], "key");
    place(name, control, path.and_then(|path| key_of(data, &path)))
}

/// Returns the entries of `concurrency`, which is one entry or a list.
fn entries(def: &Value) -> Vec<&Value> {
    match def.get("concurrency") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().collect(),
        Some(one) => vec![one],
    }
}

/// Returns the entries of `concurrency` that are limits.
pub(super) fn limits(def: &Value) -> Vec<&Value> {
    entries(def).into_iter().filter(|entry| entry.get("limit").is_some()).collect()
}

/// Returns the name of a limit: its span and the path of its key.
pub(super) fn limit_name(limit: &Value) -> String {
    let span = text(limit, "span").unwrap_or_else(|| "executing".to_owned());
    format!("{span} {}", text(limit, "key").unwrap_or_default())
}

/// Returns the entry of `concurrency` that is a policy.
pub(super) fn policy(def: &Value) -> Option<&Value> {
    entries(def).into_iter().find(|entry| entry.is_string() || entry.get("policy").is_some())
}

/// Returns the policy's name.
pub(super) fn policy_name(def: &Value) -> Option<&str> {
    let policy = policy(def)?;
    policy.as_str().or_else(|| policy["policy"].as_str())
}

/// Returns the gate of the policy, which the actions of a flow share. Without its key a request
/// does not take the gate (spec policies).
pub(super) fn policy_place(def: &Value, data: &Value) -> Option<Place> {
    if policy_name(def)? == "allow" {
        return None;
    }
    let kind = text(policy(def)?, "key").unwrap_or_else(|| "session".to_owned());
    let key = key_of(data, &kind)?;
    Some(place(&text(def, "flow")?, "policy", Some(format!("{kind} {key}"))))
}
