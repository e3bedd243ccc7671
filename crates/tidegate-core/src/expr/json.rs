//! Lists and maps in expressions. They are JSON text, of which only the needed parts are parsed.

use std::{borrow::Cow, collections::BTreeMap};

use super::value::{Type, Value};
use crate::{
    json::{Cursor, MAX_DEPTH, Payload, select},
    key::Decimal,
};

/// Valid JSON text of a list or a map.
///
/// The form is the same for lists and maps of payloads and for those that an expression builds.
/// Where possible, the text is a slice of the payload.
#[derive(Clone, Debug)]
pub struct Json<'a>(Cow<'a, str>);

impl<'a> Json<'a> {
    pub(super) fn of(payload: &'a Payload) -> Json<'a> {
        Json(Cow::Borrowed(payload.as_str()))
    }

    /// Creates a value without a check: the text must be valid JSON.
    pub(super) fn trusted(text: impl Into<Cow<'a, str>>) -> Json<'a> {
        Json(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn borrowed(&self) -> Json<'_> {
        Json(Cow::Borrowed(&self.0))
    }

    /// Returns the size of the text if this value owns it; 0 if it is a slice of a payload or of a
    /// literal.
    pub(super) fn owned_bytes(&self) -> usize {
        if let Cow::Owned(text) = &self.0 { text.len() } else { 0 }
    }

    pub(super) fn is_list(&self) -> bool {
        self.0.starts_with('[')
    }

    /// Returns the JSON text at the path `names`: members by name, elements by index. Of members
    /// with the same name the last one counts.
    pub(super) fn get(&self, names: &[String]) -> Option<Cow<'a, str>> {
        match &self.0 {
            Cow::Borrowed(text) => select(text, names).map(Cow::Borrowed),
            Cow::Owned(text) => select(text, names).map(|text| Cow::Owned(text.to_owned())),
        }
    }

    /// Returns the elements of a list, or the quoted names of a map, sorted and without duplicates.
    pub(super) fn items(&self) -> Result<Vec<Cow<'a, str>>, String> {
        if !self.is_list() {
            return Ok(sorted(&self.0)?.keys().map(|name| Cow::Owned(quote(name))).collect());
        }
        Ok(match &self.0 {
            Cow::Borrowed(text) => elements(text).map(Cow::Borrowed).collect(),
            Cow::Owned(text) => elements(text).map(|text| Cow::Owned(text.to_owned())).collect(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        members(&self.0).next().is_none()
    }

    /// Returns the canonical text, which is the same for all spellings of this value: names sorted
    /// and unique, numbers as [`Decimal`] prints them, no spaces.
    pub(super) fn canonical(&self) -> Result<String, String> {
        let mut out = String::new();
        write_canonical(&self.0, 0, &mut out)?;
        Ok(out)
    }
}

/// Parses a value of any type. Fails for a text or number that is valid JSON but cannot be
/// represented exactly.
pub(super) fn read(text: Cow<'_, str>) -> Result<Value<'_>, String> {
    Ok(match text.as_bytes().first() {
        Some(b'"') => Value::Text(unquote(text)?),
        Some(b't' | b'f') => Value::Bool(text == "true"),
        Some(b'-' | b'0'..=b'9') => {
            let number = Decimal::parse(&text).map_err(|error| error.to_string())?;
            Value::Number(Cow::Owned(number))
        }
        Some(b'[' | b'{') => Value::Json(Json(text)),
        Some(_) | None => Value::Null,
    })
}

/// Builds a list, or a map from alternating names and values; none if a name is not a text.
pub(super) fn collect<'a>(
    is_map: bool,
    values: impl IntoIterator<Item = &'a Value<'a>>,
) -> Option<Json<'static>> {
    let mut text = String::from(if is_map { "{" } else { "[" });
    for (n, value) in values.into_iter().enumerate() {
        let is_name = is_map && n % 2 == 0;
        if is_name && value.kind() != Type::Text {
            return None;
        }
        text.push_str(if is_map && !is_name {
            ":"
        } else if n > 0 {
            ","
        } else {
            ""
        });
        value.write(&mut text);
    }
    text.push(if is_map { '}' } else { ']' });
    Some(Json(Cow::Owned(text)))
}

/// Quotes a text as JSON does.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn unquote(text: Cow<'_, str>) -> Result<Cow<'_, str>, String> {
    if let Cow::Borrowed(text) = text
        && !text.contains('\\')
    {
        return Ok(Cow::Borrowed(text.get(1..text.len() - 1).unwrap_or_default()));
    }
    // The text is valid JSON, so parsing can only fail at half a surrogate pair.
    let text = serde_json::from_str(&text).map(Cow::Owned);
    text.map_err(|_| "a text of the payload contains a lone surrogate".to_owned())
}

fn elements(list: &str) -> impl Iterator<Item = &str> {
    members(list).map(|(element, _)| element)
}

/// Returns the members of a map. Of members with the same name the last one counts.
fn sorted(map: &str) -> Result<BTreeMap<Cow<'_, str>, &str>, String> {
    members(map).map(|(name, value)| Ok((unquote(Cow::Borrowed(name))?, value))).collect()
}

/// Returns the quoted names and the values of a map. For a list, returns each element twice: as
/// name and as value.
fn members(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut cursor = Cursor { text, at: 1 };
    std::iter::from_fn(move || {
        if matches!(cursor.peek_token()?, b']' | b'}') {
            return None;
        }
        let item = cursor.take_value();
        cursor.skip_token(b':');
        let value = if text.starts_with('{') { cursor.take_value() } else { item };
        cursor.skip_token(b',');
        Some((item, value))
    })
}

fn write_canonical(text: &str, depth: usize, out: &mut String) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("a value must nest at most {MAX_DEPTH} deep"));
    }
    match text.as_bytes().first() {
        Some(b'[') => {
            out.push('[');
            for (n, item) in elements(text).enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                write_canonical(item, depth + 1, out)?;
            }
            out.push(']');
        }
        Some(b'{') => {
            out.push('{');
            for (n, (name, value)) in sorted(text)?.into_iter().enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                out.push_str(&quote(&name));
                out.push(':');
                write_canonical(value, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => read(Cow::Borrowed(text))?.write(out),
    }
    Ok(())
}
