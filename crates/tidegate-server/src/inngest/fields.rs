//! The reader of what an SDK sends: names in any case, `null` and empty lists as absent.

use serde_json::{Map, Value};

use super::duration::milliseconds;

/// Returns a value with all names in lower case and without underscores, and without members that
/// are null or empty lists. The SDKs spell the same name as `appName`, `appname` and `app_name`.
pub(super) fn plain(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, member)| !is_absent(member));
            let name = |name: String| name.replace('_', "").to_lowercase();
            Value::Object(members.map(|(key, member)| (name(key), plain(member))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        other => other,
    }
}

fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Result of reading a part of a configuration: the value, or a sentence that says what is wrong.
pub(super) type Read<T> = Result<T, String>;

/// One object, with its place in the sender's own words.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    at: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Opens an object whose place is `at`; empty for the whole configuration.
    pub(super) fn open(value: &'a Value, at: &str) -> Read<Self> {
        let place = if at.is_empty() { "the configuration" } else { at };
        let map = value.as_object().ok_or_else(|| wrong(place, "an object", value))?;
        Ok(Self { at: at.to_owned(), map })
    }

    /// Returns the raw value of a field. `name` is the sender's spelling.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(&name.to_lowercase())
    }

    /// Returns the place of a field.
    pub(super) fn place(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Opens an optional object.
    pub(super) fn part(&self, name: &str) -> Read<Option<Self>> {
        self.get(name).map(|value| Self::open(value, &self.place(name))).transpose()
    }

    /// Returns the elements of an optional list; a single value is a list of one.
    pub(super) fn list(&self, name: &str) -> &'a [Value] {
        match self.get(name) {
            None => &[],
            Some(Value::Array(items)) => items,
            Some(other) => std::slice::from_ref(other),
        }
    }

    /// Reads an optional text. An empty text is absent: SDKs send it where nothing was given.
    pub(super) fn text(&self, name: &str) -> Read<Option<&'a str>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| wrong(&self.place(name), "a text", value))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// Reads a required text.
    pub(super) fn required(&self, name: &str) -> Read<&'a str> {
        self.text(name)?.ok_or_else(|| format!("{} is required", self.place(name)))
    }

    /// Reads an optional whole number.
    pub(super) fn count(&self, name: &str, least: u64, most: u64) -> Read<Option<u64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (least..=most).contains(number));
        let rule = match most {
            u64::MAX => format!("a whole number of at least {least}"),
            most => format!("a whole number from {least} to {most}"),
        };
        number.map(Some).ok_or_else(|| wrong(&self.place(name), &rule, value))
    }

    /// Reads an optional duration. Returns milliseconds.
    pub(super) fn duration(&self, name: &str) -> Read<Option<u64>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let rule = "a duration such as `10s` or `2h45m`";
        let ms = milliseconds(text).filter(|ms| *ms > 0);
        ms.map(Some).ok_or_else(|| format!("{} must be {rule}, got `{text}`", self.place(name)))
    }

    /// Reads a required duration. Returns milliseconds.
    pub(super) fn required_duration(&self, name: &str) -> Read<u64> {
        self.duration(name)?.ok_or_else(|| format!("{} is required", self.place(name)))
    }
}

fn wrong(place: &str, rule: &str, value: &Value) -> String {
    let shown: String = value.to_string().chars().take(60).collect();
    format!("{place} must be {rule}, got {shown}")
}
