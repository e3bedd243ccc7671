//! Values of expressions: the values of JSON, with exact numbers.

use std::{borrow::Cow, fmt};

use super::{
    json::{Json, quote},
    number,
};
use crate::{json::Payload, key::Decimal};

/// Value of a variable or of a node.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`, and the value at a path that does not exist.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, never rounded.
    Number(Cow<'a, Decimal>),
    /// A text.
    Text(Cow<'a, str>),
    /// A list or a map.
    Json(Json<'a>),
    /// A map whose members are separate values of the caller, such as the columns of an event.
    Record(&'a [(&'a str, Value<'a>)]),
}

/// Type of a [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// [`Value::Null`].
    Null,
    /// [`Value::Bool`].
    Bool,
    /// [`Value::Number`].
    Number,
    /// [`Value::Text`].
    Text,
    /// [`Value::Json`] that is a list.
    List,
    /// [`Value::Json`] that is a map, and [`Value::Record`].
    Map,
}

impl<'a> Value<'a> {
    /// Creates the value of a payload. Only the parts that the expression names are parsed.
    pub fn of(payload: &'a Payload) -> Value<'a> {
        Value::Json(Json::of(payload))
    }

    /// Creates a text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Value<'a> {
        Value::Text(text.into())
    }

    /// Creates a number.
    pub fn number(number: impl Into<Decimal>) -> Value<'a> {
        Value::Number(Cow::Owned(number.into()))
    }

    /// Returns the type.
    pub fn kind(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Number(_) => Type::Number,
            Value::Text(_) => Type::Text,
            Value::Json(json) => {
                if json.is_list() {
                    Type::List
                } else {
                    Type::Map
                }
            }
            Value::Record(_) => Type::Map,
        }
    }

    /// Returns a value that borrows the text of this one.
    pub(super) fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(*value),
            Value::Number(number) => Value::Number(Cow::Borrowed(number)),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Json(json) => Value::Json(json.borrowed()),
            Value::Record(fields) => Value::Record(fields),
        }
    }

    /// Returns the number of bytes that a clone copies.
    pub(super) fn owned_bytes(&self) -> usize {
        match self {
            Value::Number(number) => number.parts().2.len(),
            Value::Text(Cow::Owned(text)) => text.len(),
            Value::Json(json) => json.owned_bytes(),
            Value::Null | Value::Bool(_) | Value::Text(Cow::Borrowed(_)) | Value::Record(_) => 0,
        }
    }

    /// Returns the JSON text.
    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends the JSON text.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(number) => out.push_str(&number.to_string()),
            Value::Text(text) => out.push_str(&quote(text)),
            Value::Json(json) => out.push_str(json.as_str()),
            Value::Record(fields) => {
                out.push('{');
                for (n, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if n > 0 { "," } else { "" });
                    out.push_str(&quote(name));
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Returns the value as a name in a path: a text, or an index as text. None for other values.
    pub(super) fn as_name(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.clone().into_owned()),
            Value::Number(number) => number::index(number).map(|index| index.to_string()),
            Value::Null | Value::Bool(_) | Value::Json(_) | Value::Record(_) => None,
        }
    }

    /// Whether the value is null, false, 0, or empty.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(number) => number::sign(number) == 0,
            Value::Text(text) => text.is_empty(),
            Value::Json(json) => json.is_empty(),
            Value::Record(fields) => fields.is_empty(),
        }
    }

    /// Whether the value counts as true, as in JavaScript: empty lists and maps count as true.
    pub(super) fn is_truthy(&self) -> bool {
        matches!(self.kind(), Type::List | Type::Map) || !self.is_zero()
    }
}

impl Type {
    /// Returns the zero of this type: null counts as this value if the other operand has this type.
    pub(super) fn zero(self) -> Value<'static> {
        match self {
            Type::Null => Value::Null,
            Type::Bool => Value::Bool(false),
            Type::Number => Value::number(0),
            Type::Text => Value::text(""),
            Type::List => Value::Json(Json::trusted("[]")),
            Type::Map => Value::Json(Json::trusted("{}")),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Null => "null",
            Type::Bool => "a boolean",
            Type::Number => "a number",
            Type::Text => "a text",
            Type::List => "a list",
            Type::Map => "a map",
        })
    }
}

impl fmt::Display for Value<'_> {
    /// Writes type and value for messages. A long value is shortened.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_BYTES: usize = 40;
        if matches!(self, Value::Null) {
            return f.write_str("null");
        }
        let text = self.to_json();
        let cut = text.floor_char_boundary(SHOWN_BYTES);
        let more = if cut < text.len() { "…" } else { "" };
        write!(f, "{} `{}{more}`", self.kind(), &text[..cut])
    }
}
