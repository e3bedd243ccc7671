//! Schemas of workflow data and action inputs.
//!
//! A subset of JSON Schema, small enough to be read in one sitting, with errors that name the path
//! of a mismatch. A keyword that would not be checked is refused with the definition: a rule that
//! is written down holds.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Number, Value};

use crate::definition::{Code, Problems, nearest, shorten};

/// Maximum size of a schema, as text. It is sent to every client that lists tools.
pub const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// Keywords that are checked.
const CHECKED: [&str; 16] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "anyOf",
];

/// Keywords that are annotations for people.
const TOLD: [&str; 11] = [
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// Type names.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

/// Mismatch of a value and its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The path, in the notation of keys: `input.items.0.id`.
    pub path: String,
    /// The rule and the value.
    pub rule: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.path, self.rule)
    }
}

/// Checks a value against a schema; `at` is the value's path.
pub fn check(schema: &Value, value: &Value, at: &str) -> Result<(), Mismatch> {
    let wrong = |rule: String| {
        Err(Mismatch { path: at.to_owned(), rule: format!("{rule}, got {}", shorten(value)) })
    };
    let Some(rules) = schema.as_object() else {
        let wanted = *schema != Value::Bool(false);
        return if wanted { Ok(()) } else { wrong("is not wanted".to_owned()) };
    };
    for (keyword, rule) in rules {
        if !holds(keyword, rule, value) {
            return wrong(format!("must have {keyword} {}", shorten(rule)));
        }
    }
    if let Some(members) = value.as_object() {
        check_members(rules, members, at)?;
    }
    let items = value.as_array().filter(|_| rules.contains_key("items"));
    for (n, item) in items.into_iter().flatten().enumerate() {
        check(&rules["items"], item, &format!("{at}.{n}"))?;
    }
    Ok(())
}

/// Whether one rule holds for the value itself. Rules for other types always hold.
fn holds(keyword: &str, rule: &Value, value: &Value) -> bool {
    let amount = match keyword {
        "minLength" | "maxLength" => value.as_str().map(|text| text.chars().count().into()),
        "minItems" | "maxItems" => value.as_array().map(|items| items.len().into()),
        _ => value.as_number().cloned(),
    };
    let order = || compare(amount.as_ref()?, rule.as_number()?);
    match keyword {
        "type" => each(rule).any(|kind| is(kind.as_str().unwrap_or_default(), value)),
        "enum" => each(rule).any(|one| same(one, value)),
        "const" => same(rule, value),
        "anyOf" => each(rule).any(|one| check(one, value, "").is_ok()),
        "minimum" | "minLength" | "minItems" => order().is_none_or(Ordering::is_ge),
        "maximum" | "maxLength" | "maxItems" => order().is_none_or(Ordering::is_le),
        "exclusiveMinimum" => order().is_none_or(Ordering::is_gt),
        "exclusiveMaximum" => order().is_none_or(Ordering::is_lt),
        _ => true,
    }
}

fn check_members(
    rules: &Map<String, Value>,
    members: &Map<String, Value>,
    at: &str,
) -> Result<(), Mismatch> {
    let known = rules.get("properties").and_then(Value::as_object);
    for name in rules.get("required").into_iter().flat_map(each).filter_map(Value::as_str) {
        if !members.contains_key(name) {
            let (path, rule) = (format!("{at}.{name}"), "is required, and absent".to_owned());
            return Err(Mismatch { path, rule });
        }
    }
    for (name, member) in members {
        let schema = known.and_then(|known| known.get(name));
        if let Some(schema) = schema.or_else(|| rules.get("additionalProperties")) {
            check(schema, member, &format!("{at}.{name}"))?;
        }
    }
    Ok(())
}

/// Returns the items of a list, or the single value in its place.
fn each(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice).iter()
}

fn is(kind: &str, value: &Value) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
        Value::Number(number) => {
            let whole = number.as_i128().is_some()
                || number.as_f64().is_some_and(|number| number.fract() == 0.0);
            kind == "number" || kind == "integer" && whole
        }
    }
}

/// Compares values; numbers are equal by value: `1` is `1.0`.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Some(Ordering::Equal),
        _ => one == other,
    }
}

/// Compares integers exactly, others as floats.
fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// Reports all problems of a schema; `at` is its path in the definition.
pub(crate) fn read(schema: &Value, at: &str, problems: &mut Problems) {
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        let message = format!("must have at most {MAX_SCHEMA_BYTES} bytes, got {bytes}");
        problems.error(Code::OutOfRange, at, message);
    } else if schema.is_object() {
        read_part(schema, at, problems);
    } else {
        let message = format!("must be an object with a JSON Schema, got {}", shorten(schema));
        problems.error(Code::WrongType, at, message);
    }
}

fn read_part(schema: &Value, at: &str, problems: &mut Problems) {
    let Some(rules) = schema.as_object() else {
        if !schema.is_boolean() {
            let message = format!("must be a schema, got {}", shorten(schema));
            problems.error(Code::WrongType, at, message);
        }
        return;
    };
    for (keyword, rule) in rules {
        let place = format!("{at}.{keyword}");
        if TOLD.contains(&keyword.as_str()) {
            continue;
        }
        if !CHECKED.contains(&keyword.as_str()) {
            let fix = nearest::suggest(keyword, &CHECKED);
            let message = format!("is not checked here, so it cannot be written: {fix}");
            problems.error(Code::UnknownField, &place, message);
        } else if let Some(wanted) = unfit(keyword, rule) {
            let message = format!("must be {wanted}, got {}", shorten(rule));
            problems.error(Code::WrongType, &place, message);
        } else {
            for (name, part) in parts(keyword, rule) {
                read_part(part, &format!("{place}{name}"), problems);
            }
        }
    }
}

/// Returns the expected type of a keyword's value, where it has another.
fn unfit(keyword: &str, rule: &Value) -> Option<&'static str> {
    let texts = || each(rule).all(Value::is_string);
    let filled = || rule.as_array().is_some_and(|list| !list.is_empty());
    let (fits, wanted) = match keyword {
        "type" => {
            let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
            let fits = each(rule).all(known) && *rule != Value::Array(Vec::new());
            let all = "`null`, `boolean`, `object`, `array`, `number`, `integer` or `string`";
            (fits, if fits { "" } else { all })
        }
        "enum" | "anyOf" => (filled(), "a list with something in it"),
        "properties" => (rule.is_object(), "an object with a schema for each name"),
        "required" => (rule.is_array() && texts(), "a list of names"),
        "minLength" | "maxLength" | "minItems" | "maxItems" => {
            (rule.is_u64(), "a whole number of at least 0")
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            (rule.is_number(), "a number")
        }
        _ => (true, ""),
    };
    (!fits).then_some(wanted)
}

/// Returns the schemas inside a keyword's value, each with its path below the keyword.
fn parts<'a>(keyword: &str, rule: &'a Value) -> Vec<(String, &'a Value)> {
    match (keyword, rule) {
        ("items" | "additionalProperties", schema) => vec![(String::new(), schema)],
        ("properties", Value::Object(map)) => {
            map.iter().map(|(name, schema)| (format!(".{name}"), schema)).collect()
        }
        ("anyOf", Value::Array(list)) => {
            list.iter().enumerate().map(|(n, schema)| (format!("[{n}]"), schema)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check;
    use crate::definition::Definition;

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let order = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "minLength": 2, "maxLength": 3 },
                "amount": { "type": "integer", "minimum": 1, "exclusiveMaximum": 10 },
                "size": { "enum": ["s", 1, null] },
                "lines": { "type": "array", "items": { "type": "object",
                    "properties": { "n": { "type": ["number", "null"] } } }, "maxItems": 2 },
                "by": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            },
            "required": ["id"],
            "additionalProperties": false,
        });
        let right = json!({ "id": "äb", "amount": 9.0, "size": 1.0, "lines": [{ "n": 0.5 }],
            "by": null });
        assert_eq!(check(&order, &right, "input"), Ok(()));
        for (wrong, said) in [
            (json!([]), r#"`input` must have type "object", got []"#),
            (json!({}), "`input.id` is required, and absent"),
            (json!({ "id": "a" }), r#"`input.id` must have minLength 2, got "a""#),
            (json!({ "id": "aaaa" }), r#"`input.id` must have maxLength 3, got "aaaa""#),
            (json!({ "id": "ab", "amount": 0 }), "`input.amount` must have minimum 1, got 0"),
            (json!({ "id": "ab", "amount": 10 }), "exclusiveMaximum 10, got 10"),
            (json!({ "id": "ab", "amount": 1.5 }), r#"must have type "integer", got 1.5"#),
            (json!({ "id": "ab", "size": "1" }), r#"must have enum ["s",1,null], got "1""#),
            (json!({ "id": "ab", "lines": [{}, { "n": "1" }] }), "`input.lines.1.n` must have"),
            (json!({ "id": "ab", "lines": [1] }), r#"`input.lines.0` must have type "object""#),
            (json!({ "id": "ab", "lines": [{}, {}, {}] }), "`input.lines` must have maxItems 2"),
            (json!({ "id": "ab", "by": 1 }), "`input.by` must have anyOf"),
            (json!({ "id": "ab", "more": 1 }), "`input.more` is not wanted, got 1"),
        ] {
            let mismatch = check(&order, &wrong, "input").unwrap_err().to_string();
            assert!(mismatch.contains(said), "{mismatch}");
        }
        // Beyond the precision of a float.
        let large = json!({ "maximum": 9_007_199_254_740_992_u64 });
        assert!(check(&large, &json!(9_007_199_254_740_993_u64), "input").is_err());
    }

    #[test]
    fn a_schema_that_would_not_be_kept_is_refused() {
        let problems = |schema: Value| {
            let action = json!({ "flow": "f", "name": "a", "schema": schema });
            Definition::parse(&action).map(drop).map_err(|errors| errors.to_string())
        };
        assert_eq!(problems(json!({ "type": "object", "title": "An order" })), Ok(()));
        for (schema, said) in [
            (json!("object"), "schema must be an object with a JSON Schema, got \"object\""),
            (json!({ "type": "text" }), "schema.type must be `null`, `boolean`,"),
            (json!({ "type": [] }), "schema.type must be"),
            (json!({ "pattern": "^a" }), "schema.pattern is not checked here"),
            (json!({ "minlength": 1 }), "did you mean `minLength`?"),
            (json!({ "required": "id" }), "schema.required must be a list of names"),
            (json!({ "enum": [] }), "schema.enum must be a list with something in it"),
            (json!({ "maxLength": -1 }), "schema.maxLength must be a whole number"),
            (json!({ "minimum": "1" }), "schema.minimum must be a number"),
            (json!({ "properties": { "a": 1 } }), "schema.properties.a must be a schema, got 1"),
            (json!({ "anyOf": [{ "$ref": "#" }] }), "schema.anyOf[0].$ref is not checked"),
            (json!({ "items": [{}] }), "schema.items must be a schema"),
            (json!({ "title": "a".repeat(70_000) }), "schema must have at most 65536 bytes"),
        ] {
            let errors = problems(schema).unwrap_err();
            assert!(errors.contains(said), "{errors}");
        }
    }
}
