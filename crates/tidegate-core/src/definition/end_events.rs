//! End events: events that the end of a run posts, for workflows that are triggered by them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    definition::{Code, Fields, Reported, shorten},
    row::Ending,
};

/// Maximum number of events for one way to end. Each is a row of the transaction that ends the run.
const MAX_EVENTS: usize = 4;

/// Maximum size of the members that all events have, in bytes.
const MAX_DATA_BYTES: usize = 16 * 1024;

/// The setting `endEvents`: names of the events for each way to end, and members of their data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndEvents {
    /// Events after a completed run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<String>,
    /// Events after a failed run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Events after a cancelled run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<String>,
    /// Members of the data of every event.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
}

impl EndEvents {
    /// Returns the names of the events after this ending.
    pub fn after(&self, ending: &Ending) -> &[String] {
        match ending {
            Ending::Completed { .. } => &self.completed,
            Ending::Failed { .. } => &self.failed,
            Ending::Cancelled { .. } => &self.cancelled,
        }
    }

    /// Returns the names of all events, some of them several times.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        [&self.completed, &self.failed, &self.cancelled].into_iter().flatten()
    }

    /// Whether an event of this name comes after some run of the workflow.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|it| it == name)
    }

    /// Reads the optional field `endEvents`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Option<EndEvents>, Reported> {
        let Some(value) = fields.get("endEvents") else { return Ok(None) };
        let known = ["completed", "failed", "cancelled", "data"];
        let mut fields = Fields::open(value, "endEvents", &known, fields.problems())?;
        let [completed, failed, cancelled] =
            ["completed", "failed", "cancelled"].map(|name| read_names(&mut fields, name));
        let data = read_data(&mut fields);
        let events = EndEvents {
            completed: completed?,
            failed: failed?,
            cancelled: cancelled?,
            data: data?,
        };
        Ok(Some(events))
    }

    /// Returns the author's form.
    pub(super) fn to_value(&self) -> Value {
        json!(self)
    }
}

/// Reads the names of events.
fn read_names(fields: &mut Fields<'_>, field: &str) -> Result<Vec<String>, Reported> {
    let Some(value) = fields.get(field) else { return Ok(Vec::new()) };
    let names: Option<Vec<String>> = value.as_array().and_then(|list| {
        list.iter()
            .map(|name| name.as_str().filter(|name| is_name(name)).map(str::to_owned))
            .collect()
    });
    names.filter(|names| names.len() <= MAX_EVENTS).ok_or_else(|| {
        let rule = format!("must be a list of up to {MAX_EVENTS} names of events, without a star");
        fields.error(Code::WrongType, field, format!("{rule}, got {}", shorten(value)))
    })
}

fn is_name(name: &str) -> bool {
    (1..=256).contains(&name.chars().count()) && !name.contains(['*', '\0'])
}

fn read_data(fields: &mut Fields<'_>) -> Result<Map<String, Value>, Reported> {
    let Some(value) = fields.get("data") else { return Ok(Map::new()) };
    let data = value.as_object().filter(|_| value.to_string().len() <= MAX_DATA_BYTES);
    data.cloned().ok_or_else(|| {
        let rule = format!("must be an object of at most {MAX_DATA_BYTES} bytes");
        fields.error(Code::WrongType, "data", format!("{rule}, got {}", shorten(value)))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::definition::{Definition, testing::problems};

    #[test]
    fn wrong_names_are_refused() {
        let all = [
            json!([]),
            json!({ "ended": ["a"] }),
            json!({ "failed": "a", "completed": ["a*"], "cancelled": ["a", 1] }),
            json!({ "failed": ["a", "b", "c", "d", "e"], "data": [] }),
        ];
        expect![[r#"
            workflow `w`: endEvents must be an object of `completed`, `failed`, `cancelled`, `data`, got []
            workflow `w`: endEvents.ended is not known: known are `completed`, `failed`, `cancelled`, `data`
            workflow `w`: endEvents.completed must be a list of up to 4 names of events, without a star, got ["a*"]
            workflow `w`: endEvents.failed must be a list of up to 4 names of events, without a star, got "a"
            workflow `w`: endEvents.cancelled must be a list of up to 4 names of events, without a star, got ["a",1]
            workflow `w`: endEvents.failed must be a list of up to 4 names of events, without a star, got ["a","b","c","d","e"]
            workflow `w`: endEvents.data must be an object of at most 16384 bytes, got []
        "#]]
        .assert_eq(&all.map(|events| problems(&json!({ "endEvents": events }))).concat());
    }

    #[test]
    fn the_authors_form_is_read_again() {
        let value = json!({ "app": "default", "name": "w",
            "endEvents": { "failed": ["a", "b"], "data": { "function": "w" } } });
        let definition = Definition::parse(&value).unwrap().value;
        assert_eq!(definition.to_value(), value);
        let stored = serde_json::to_string(&definition).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&stored).unwrap(), definition);
    }
}
