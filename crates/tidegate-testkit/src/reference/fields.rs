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

/// Returns the entries of a control, which is one entry or a list.
pub(super) fn entries<'a>(def: &'a Value, control: &str) -> Vec<&'a Value> {
    match def.get(control) {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().collect(),
        Some(one) => vec![one],
    }
}

/// Returns the entries of `concurrency` that are limits.
pub(super) fn limits(def: &Value) -> Vec<&Value> {
    entries(def, "concurrency").into_iter().filter(|entry| entry.get("limit").is_some()).collect()
}

/// Returns the names of the meters of a control, each once: limits with one key share a name.
pub(super) fn meters(def: &Value, control: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in entries(def, control) {
        let name = format!("{control} {}", text(entry, "key").unwrap_or_default());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the limits of a meter by its name; those of the first name if the definition has no
/// limit of this name.
pub(super) fn metered<'a>(def: &'a Value, name: &str) -> Vec<&'a Value> {
    let control = name.split(' ').next().unwrap_or_default();
    let names = meters(def, control);
    let name = names.iter().find(|it| *it == name).or(names.first());
    let alike = |entry: &&Value| {
        Some(&format!("{control} {}", text(entry, "key").unwrap_or_default())) == name
    };
    entries(def, control).into_iter().filter(alike).collect()
}

/// Returns the scope of a meter by its name, with the key of an event.
pub(super) fn meter_place(owner: &str, name: &str, data: &Value) -> Place {
    let path = name.split_once(' ').map_or("", |(_, path)| path);
    let key = Some(path).filter(|path| !path.is_empty()).and_then(|path| key_of(data, path));
    place(owner, name, key)
}

/// Returns the cost of a run at a limit: the sum over its events. `None` if one of them has a value
/// that is no cost (spec L8).
pub(super) fn cost(limit: &Value, events: &[Value]) -> Option<i128> {
    let Some(cost) = limit.get("cost") else { return Some(1) };
    if let Some(units) = cost.as_u64() {
        return Some(i128::from(units) * i128::try_from(events.len()).ok()?);
    }
    let path = cost.as_str().expect("a path");
    let each = events.iter().map(|data| {
        let found = path.split('.').try_fold(data, |at, name| at.get(name));
        match found {
            None | Some(Value::Null) => Some(1),
            Some(value) => {
                let number = value.as_f64().filter(|it| it.fract() == 0.0 && *it >= 1.0);
                #[expect(clippy::cast_possible_truncation, reason = "a whole number of a test")]
                number.map(|number| number as i128)
            }
        }
    });
    each.sum()
}

/// Returns the name of a limit: its span and the path of its key.
pub(super) fn limit_name(limit: &Value) -> String {
    let span = text(limit, "span").unwrap_or_else(|| "executing".to_owned());
    format!("{span} {}", text(limit, "key").unwrap_or_default())
}

/// Returns the entry of `concurrency` that is a policy.
pub(super) fn policy(def: &Value) -> Option<&Value> {
    entries(def, "concurrency")
        .into_iter()
        .find(|entry| entry.is_string() || entry.get("policy").is_some())
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
