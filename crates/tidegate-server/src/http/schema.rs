//! JSON schemas of the OpenAPI document.

use serde_json::{Map, Value, json};

/// A reference to a named schema.
pub(super) fn of(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

pub(super) fn any() -> Value {
    json!({})
}

pub(super) fn string() -> Value {
    json!({ "type": "string" })
}

/// A string with a length within bounds.
pub(super) fn text(least: u32, most: u32) -> Value {
    json!({ "type": "string", "minLength": least, "maxLength": most })
}

/// One of several strings.
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

/// A count in a response. A number that a client sends has an upper bound: [`number`].
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

/// The same without any other members: for request bodies.
pub(super) fn closed<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut shape = object(members);
    shape["additionalProperties"] = false.into();
    shape
}

/// The cursor of a page: `next` of the previous page.
pub(super) fn cursor() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]{1,18}$" })
}

/// A page of a list.
pub(super) fn page(name: &str, item: Value) -> Value {
    object([(name, list(item)), ("next", nullable(string()))])
}
