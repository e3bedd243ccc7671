//! Shapes of JSON, as the OpenAPI document tells them.

use serde_json::{Map, Value, json};

/// A shape that is described once and named.
pub(super) fn of(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

pub(super) fn any() -> Value {
    json!({})
}

pub(super) fn string() -> Value {
    json!({ "type": "string" })
}

/// A text of so many characters.
pub(super) fn text(least: u32, most: u32) -> Value {
    json!({ "type": "string", "minLength": least, "maxLength": most })
}

/// One of these words.
pub(super) fn word(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

pub(super) fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

pub(super) fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// A whole number within bounds.
pub(super) fn number(least: i64, most: impl Into<Value>) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most.into() })
}

/// A number that counts, in an answer: what a client sends has an end, [`number`].
pub(super) fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

pub(super) fn list(item: Value) -> Value {
    json!({ "type": "array", "items": item })
}

pub(super) fn nullable(shape: Value) -> Value {
    json!({ "anyOf": [shape, { "type": "null" }] })
}

/// An object with these members; a name that ends in `?` may be absent.
pub(super) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, shape) in members {
        let plain = name.strip_suffix('?');
        if plain.is_none() {
            required.push(name.to_owned());
        }
        properties.insert(plain.unwrap_or(name).to_owned(), shape);
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The same, and nothing else in it: what a client sends.
pub(super) fn closed<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut shape = object(members);
    shape["additionalProperties"] = false.into();
    shape
}

/// Where a page begins: what `next` of the page before says.
pub(super) fn cursor() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]{1,18}$" })
}

/// A page of a list.
pub(super) fn page(name: &str, item: Value) -> Value {
    object([(name, list(item)), ("next", nullable(string()))])
}
