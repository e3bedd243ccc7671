//! JSON Schemas of the OpenAPI document, derived from the types of requests and responses.

use std::borrow::Cow;

use schemars::{
    JsonSchema, Schema, SchemaGenerator,
    generate::SchemaSettings,
    json_schema,
    transform::{Transform, transform_subschemas},
};
use serde_json::{Map, Value};

use super::body::MAX_PAGE;

/// Function that returns the schema of one type.
pub(super) type Make = fn(&mut SchemaGenerator) -> Schema;

/// Returns a function that makes a reference to the schema of a type, or the schema itself if the
/// type has no name.
pub(super) fn of<T: JsonSchema>() -> Make {
    SchemaGenerator::subschema_for::<T>
}

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident => $schema:tt;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!($schema)
                }
            }
        )*
    };
}

texts! {
    /// A time in the format of RFC 3339. Handlers parse and format it themselves.
    DateTime => { "type": "string", "format": "date-time" };
    /// The name of something in a request, such as a session.
    Name => { "type": "string", "minLength": 1, "maxLength": 256 };
    /// The `limit` of a page.
    PageSize => { "type": "integer", "minimum": 1, "maximum": MAX_PAGE };
    /// The `cursor` of a list that is ordered by sequence number.
    Cursor => { "type": "string", "pattern": "^[0-9]{1,18}$" };
    /// Any object.
    Object => { "type": "object" };
}

/// The named schemas of a document. A type may have different schemas in requests and in responses,
/// so there is one generator for each.
#[derive(Debug)]
pub(super) struct Schemas {
    answers: SchemaGenerator,
    requests: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            answers: settings.clone().for_serialize().into_generator(),
            requests: settings.into_generator(),
        }
    }

    /// Returns the schema of a type in responses.
    pub(super) fn answer(&mut self, make: Make) -> Value {
        let mut schema = make(&mut self.answers);
        as_answered(&mut schema);
        schema.to_value()
    }

    /// Returns the schema of a type in requests.
    pub(super) fn request(&mut self, make: Make) -> Value {
        let mut schema = make(&mut self.requests);
        as_sent(&mut schema);
        schema.to_value()
    }

    /// Returns the schemas of query parameters, by name. A parameter may be absent, but it is never
    /// null.
    pub(super) fn query(&mut self, make: Make) -> Map<String, Value> {
        let mut schema = self.request(make);
        let members = schema["properties"].as_object_mut().map(std::mem::take);
        let mut members = members.unwrap_or_default();
        members.values_mut().for_each(remove_null);
        members
    }

    /// Returns all named schemas. A name that requests and responses share must have the same
    /// schema in both.
    pub(super) fn into_named(mut self) -> Map<String, Value> {
        let mut named = transformed(self.answers.take_definitions(false), as_answered);
        for (name, schema) in transformed(self.requests.take_definitions(false), as_sent) {
            let other = named.insert(name.clone(), schema.clone());
            let same = other.is_none_or(|other| other == schema);
            assert!(
                same,
                "the type `{name}` has different schemas in requests and responses: rename one"
            );
        }
        named
    }
}

fn transformed(schemas: Map<String, Value>, mut transform: impl Transform) -> Map<String, Value> {
    let transformed = schemas.into_iter().map(|(name, schema)| {
        let mut schema = Schema::try_from(schema).expect("each definition must be a schema");
        transform.transform(&mut schema);
        (name, schema.to_value())
    });
    transformed.collect()
}

/// In a response an optional member is absent, never null.
fn as_answered(schema: &mut Schema) {
    transform_subschemas(&mut as_answered, schema);
    plain(schema);
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| {
        required.as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, member) in members.into_iter().flatten() {
        if !is_required(name) {
            remove_null(member);
        }
    }
}

/// Removes the null that schemars adds for `Option`.
fn remove_null(schema: &mut Value) {
    let is_null = |kind: &Value| kind == "null" || kind["type"] == "null";
    for keyword in ["type", "anyOf"] {
        let Some(kinds) = schema.get_mut(keyword).and_then(Value::as_array_mut) else { continue };
        kinds.retain(|kind| !is_null(kind));
        if let [only] = kinds.as_mut_slice() {
            let only = only.take();
            match only {
                Value::Object(only) => {
                    if let Some(members) = schema.as_object_mut() {
                        members.remove(keyword);
                        members.extend(only);
                    }
                }
                only => schema[keyword] = only,
            }
        }
    }
}

/// Adds missing bounds to numbers in requests, so that a client that follows the document is not
/// rejected.
fn as_sent(schema: &mut Schema) {
    transform_subschemas(&mut as_sent, schema);
    let bounds: Option<(Value, Value)> = match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => Some((0.into(), u32::MAX.into())),
        Some("uint64") => Some((0.into(), u64::MAX.into())),
        Some("int64") => Some((i64::MIN.into(), i64::MAX.into())),
        _ => None,
    };
    plain(schema);
    if let (Some((minimum, maximum)), Some(members)) = (bounds, schema.as_object_mut()) {
        members.entry("minimum").or_insert(minimum);
        members.entry("maximum").or_insert(maximum);
    }
}

/// Replaces schemas that client generators handle badly: `true`, a default of null, formats of
/// Rust's numbers, and a list of constants where an `enum` means the same.
fn plain(schema: &mut Schema) {
    if schema.as_bool() == Some(true) {
        *schema = Schema::from(Map::new());
    }
    let Some(members) = schema.as_object_mut() else { return };
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
    if members.get("format").and_then(Value::as_str).is_some_and(|it| it.starts_with("uint")) {
        members.remove("format");
    }
    let words = members.get("oneOf").and_then(Value::as_array).and_then(|all| {
        let word = |one: &Value| match (one.get("const"), one.get("enum")) {
            (Some(word), None) => Some(vec![word.clone()]),
            (None, Some(Value::Array(words))) => Some(words.clone()),
            _ => None,
        };
        all.iter().map(word).collect::<Option<Vec<_>>>()
    });
    if let Some(words) = words {
        members.remove("oneOf");
        members.insert("type".to_owned(), "string".into());
        members.insert("enum".to_owned(), words.concat().into());
    }
}
