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

/// Returns the value of a key as text: of a path, of a list of paths (spec L13), or of an expression
/// that is a path (spec L15).
pub(super) fn key_from(data: &Value, source: &str) -> Option<String> {
    if !source.starts_with('{') {
        return key_of(data, source);
    }
    let source: Value = serde_json::from_str(source).expect("a source");
    if let Some(expr) = source["expr"].as_str() {
        let at = ["event.data.", "request."].iter().find_map(|root| expr.strip_prefix(root));
        return key_of(data, at.expect("a path"));
    }
    let paths = source["paths"].as_array().expect("paths");
    let values: Option<Vec<String>> =
        paths.iter().map(|path| key_of(data, path.as_str().expect("a path"))).collect();
    Some(format!("{:?}", values?))
}

/// Returns the source of a key: a path, or the JSON text of another source.
pub(super) fn source(of: &Value, field: &str) -> Option<String> {
    let source = of.get(field)?;
    source.as_str().map(str::to_owned).or_else(|| Some(source.to_string()))
}

/// Evaluates a condition of the tests: `event.data.PATH == 1` or `event.data.PATH != null`. `None`
/// if its operands have unlike types (spec L15).
pub(super) fn holds(condition: &Value, data: &Value) -> Option<bool> {
    let condition = condition.as_str().expect("an expression");
    let (path, operator) = condition.split_once(' ').expect("a comparison");
    let value = data.get(path.strip_prefix("event.data.").expect("a path"));
    let value = value.unwrap_or(&Value::Null);
    match operator {
        "== 1" if value.is_null() => Some(false),
        "== 1" => value.as_f64().map(|number| (number - 1.0).abs() < f64::EPSILON),
        "!= null" => Some(!value.is_null()),
        _ => panic!("unknown comparison `{condition}`"),
    }
}

/// Builds the scope of a control of an owner, with a key.
pub(super) fn place(owner: &str, control: &str, key: Option<String>) -> Place {
    Place { owner: owner.to_owned(), control: control.to_owned(), key }
}

/// Builds the scope of a control with an optional `key`.
pub(super) fn scoped(name: &str, control: &str, def: &Value, data: &Value) -> Place {
    let source = source(&def[control], "key");
    place(name, control, source.and_then(|source| key_from(data, &source)))
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

/// Returns the bound of the queue of a gate: the number of waiting runs, and what happens to the
/// next one.
pub(super) fn queue_of(def: &Value, place: &Place) -> Option<(usize, String)> {
    let owner = match place.control.as_str() {
        "policy" => policy(def)?,
        name => limits(def).into_iter().find(|limit| limit_name(limit) == name)?,
    };
    let queue = owner.get("queue")?;
    let mode = text(queue, "onOverflow").unwrap_or_else(|| "reject".to_owned());
    Some((count(queue, "maxWaiting")?, mode))
}

/// Returns the names of the meters of a control, each once: limits with one key share a name.
pub(super) fn meters(def: &Value, control: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in entries(def, control) {
        let name = format!("{control} {}", source(entry, "key").unwrap_or_default());
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
        Some(&format!("{control} {}", source(entry, "key").unwrap_or_default())) == name
    };
    entries(def, control).into_iter().filter(alike).collect()
}

/// Returns the scope of a meter by its name, with the key of an event.
pub(super) fn meter_place(owner: &str, name: &str, data: &Value) -> Place {
    let path = name.split_once(' ').map_or("", |(_, path)| path);
    let key = Some(path).filter(|path| !path.is_empty()).and_then(|path| key_from(data, path));
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

/// Returns a number that may be an object that reads it from an event (spec L12, L14). `None` if
/// the event has a value that is no whole number.
pub(super) fn from_data(value: &Value, data: &Value) -> Option<i128> {
    let Some(path) = text(value, "from") else { return value.as_i64().map(i128::from) };
    let bound = |field: &str| value.get(field)?.as_i64().map(i128::from);
    let found = path.split('.').try_fold(data, |at, name| at.get(name));
    let number = match found {
        None | Some(Value::Null) => return bound("default"),
        Some(found) => i128::from(found.as_i64()?),
    };
    Some(number.max(bound("min")?).min(bound("max")?))
}

/// Returns the number of an event: its position among all of the test.
pub(super) fn number_of(data: &Value) -> i128 {
    number(data, "n").or_else(|| number(data.get("input")?, "n")).expect("every event has one")
}

/// Returns the name of a limit: its span and the path of its key.
pub(super) fn limit_name(limit: &Value) -> String {
    let span = text(limit, "span").unwrap_or_else(|| "executing".to_owned());
    format!("{span} {}", source(limit, "key").unwrap_or_default())
}

/// Returns the entries of `concurrency` that use pools.
pub(super) fn uses(def: &Value) -> Vec<&Value> {
    entries(def, "concurrency").into_iter().filter(|entry| entry.get("pool").is_some()).collect()
}

/// Returns the gate of a use. It belongs to the pool, and only the value of the key counts
/// (spec L4).
pub(super) fn pool_place(usage: &Value, data: &Value) -> Place {
    let key = source(usage, "key").and_then(|key| key_from(data, &key));
    let control = if usage.get("key").is_some() { "pool keyed" } else { "pool" };
    place(&text(usage, "pool").expect("a name"), control, key)
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
    let kind = source(policy(def)?, "key").unwrap_or_else(|| "session".to_owned());
    let key = key_from(data, &kind)?;
    Some(place(&text(def, "flow")?, "policy", Some(format!("{kind} {key}"))))
}
