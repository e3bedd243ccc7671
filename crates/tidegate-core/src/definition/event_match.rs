//! Events that concern single runs: the event's name, and the values that it must have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    definition::{Code, Fields, Reported, shorten},
    json::Payload,
    key::{Key, Path},
    run::wait::{self, JOINT},
};

/// Maximum number of values that an event is compared with.
pub const MAX_PAIRS: usize = 4;

/// Events of one name with the same values as the run's own data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventMatch {
    /// The event's name.
    pub event: String,
    /// Paths in the event, each with the path in the run's own data that must have the same value.
    #[serde(default, rename = "match", skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, Path>,
}

impl EventMatch {
    /// Reads the fields `event` and `match`.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<EventMatch, Reported> {
        let event = read_event(fields);
        let paths = read_paths(fields);
        Ok(EventMatch { event: event?, paths: paths? })
    }

    /// Reads the fields `event` and `match`, of which the second may be absent.
    pub(crate) fn read_open(fields: &mut Fields<'_>) -> Result<EventMatch, Reported> {
        let event = read_event(fields);
        let paths = match fields.get("match") {
            Some(_) => read_paths(fields),
            None => Ok(BTreeMap::new()),
        };
        Ok(EventMatch { event: event?, paths: paths? })
    }

    /// Returns the joined paths in the event, and the encoded values that an event must have there
    /// to concern a run with this data; none if the data lacks one of the values.
    pub fn values(&self, data: &Payload) -> Option<(String, Vec<u8>)> {
        let mut bytes = Vec::new();
        for own in self.paths.values() {
            Key::Value(data.scalar(own).ok()??).encode_into(&mut bytes);
        }
        let path = self.path();
        let bytes = wait::fit(bytes, &path);
        Some((path, bytes))
    }

    /// Returns the joined paths in the event.
    pub(crate) fn path(&self) -> String {
        let paths = self.paths.keys().map(String::as_str).collect::<Vec<_>>();
        paths.join(JOINT.encode_utf8(&mut [0; 4]))
    }
}

fn read_event(fields: &mut Fields<'_>) -> Result<String, Reported> {
    let Some(event) = fields.name("event")? else {
        return Err(fields.missing("event", "an event's name"));
    };
    if event.contains('*') {
        let message = format!("must be the name of one event, without a star, got `{event}`");
        return Err(fields.error(Code::BadName, "event", message));
    }
    Ok(event.to_owned())
}

fn read_paths(fields: &mut Fields<'_>) -> Result<BTreeMap<String, Path>, Reported> {
    let rule = "an object of paths in the event and paths in the run's own data, such as \
                {\"orderId\": \"orderId\"}: without it every run would be read for every event";
    let Some(value) = fields.get("match") else { return Err(fields.missing("match", rule)) };
    let Some(map) = value.as_object() else {
        let message = format!("must be {rule}, got {}", shorten(value));
        return Err(fields.error(Code::WrongType, "match", message));
    };
    if map.is_empty() || map.len() > MAX_PAIRS {
        let message = format!("must have 1 to {MAX_PAIRS} paths, got {}", map.len());
        return Err(fields.error(Code::OutOfRange, "match", message));
    }
    let (at, mut paths, mut failed) = (fields.field("match"), BTreeMap::new(), None);
    for (theirs, own) in map {
        match read_pair(fields, &at, theirs, own) {
            Ok(own) => drop(paths.insert(theirs.clone(), own)),
            Err(reported) => failed = Some(reported),
        }
    }
    failed.map_or(Ok(paths), Err)
}

/// Checks a path in the event, and reads the path in the run's data.
fn read_pair(
    fields: &mut Fields<'_>,
    at: &str,
    theirs: &str,
    own: &Value,
) -> Result<Path, Reported> {
    if let Err(error) = Path::parse(theirs) {
        return Err(fields.error(Code::BadPath, "match", error.to_string()));
    }
    if theirs.contains(char::is_control) {
        let message =
            format!("must not contain control characters, got `{}`", theirs.escape_debug());
        return Err(fields.error(Code::BadPath, "match", message));
    }
    let object = serde_json::json!({ theirs: own });
    let mut pair = Fields::open(&object, at, &[theirs], fields.problems())?;
    match pair.path(theirs)? {
        Some(path) => Ok(path),
        None => Err(pair.missing(theirs, "the path in the run's own data")),
    }
}
