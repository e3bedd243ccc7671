//! Checks of a schema when it is defined. Rules that would not be enforced are refused.

use serde_json::{Map, Value};

use super::{MAX_SCHEMA_BYTES, each, pattern::Pattern, resolve};
use crate::definition::{Code, Problems, nearest, shorten};

/// Keywords that are enforced.
const CHECKED: [&str; 32] = [
    "type",
    "enum",
    "const",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "required",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "$ref",
    "$defs",
    "definitions",
];

/// Keywords that are annotations: for people, and for tools that generate code.
const ANNOTATIONS: [&str; 16] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "discriminator",
];

/// Type names.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

/// Reports all problems of a schema; `at` is its path in the definition.
pub(crate) fn read(schema: &Value, at: &str, problems: &mut Problems) {
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        let message = format!("must have at most {MAX_SCHEMA_BYTES} bytes, got {bytes}");
        problems.error(Code::OutOfRange, at, message);
    } else if schema.is_object() {
        read_part(schema, schema, at, problems);
    } else {
        let message = format!(
            "must be a JSON Schema object such as {{\"type\": \"object\"}}, got {}",
            shorten(schema)
        );
        problems.error(Code::WrongType, at, message);
    }
}

fn read_part(root: &Value, schema: &Value, at: &str, problems: &mut Problems) {
    let Some(rules) = schema.as_object() else {
        if !schema.is_boolean() {
            let message = format!("must be a schema, got {}", shorten(schema));
            problems.error(Code::WrongType, at, message);
        }
        return;
    };
    for (keyword, rule) in rules {
        let place = format!("{at}.{keyword}");
        if ANNOTATIONS.contains(&keyword.as_str()) || keyword.starts_with("x-") {
            continue;
        }
        if !CHECKED.contains(&keyword.as_str()) {
            let fix = nearest::suggest(keyword, &CHECKED);
            let message = format!("is not supported, because it would not be checked: {fix}");
            problems.error(Code::UnknownField, &place, message);
        } else if let Some(wanted) = unfit(root, keyword, rule) {
            let message = format!("must be {wanted}, got {}", shorten(rule));
            problems.error(Code::WrongType, &place, message);
        } else {
            warn_of_patterns(keyword, rule, &place, problems);
            for (name, part) in parts(keyword, rule) {
                read_part(root, part, &format!("{place}{name}"), problems);
            }
        }
    }
}

/// Warns of patterns that cannot be checked. They are not errors, because generators write them and
/// their users cannot change them.
fn warn_of_patterns(keyword: &str, rule: &Value, at: &str, problems: &mut Problems) {
    let named = rule.as_object().filter(|_| keyword == "patternProperties");
    let patterns = named.into_iter().flat_map(Map::keys).map(String::as_str);
    let own = rule.as_str().filter(|_| keyword == "pattern");
    for pattern in patterns.chain(own) {
        if let Err(reason) = Pattern::parse(pattern) {
            let message = format!("`{pattern}` is not checked: {reason}");
            problems.warn(Code::NoEffect, at, message);
        }
    }
}

/// Returns the expected type of a keyword's value; none if the value has this type.
fn unfit(root: &Value, keyword: &str, rule: &Value) -> Option<&'static str> {
    let texts = || each(rule).all(Value::is_string);
    let filled = || rule.as_array().is_some_and(|list| !list.is_empty());
    let (fits, wanted) = match keyword {
        "type" => {
            let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
            let fits = each(rule).all(known) && *rule != Value::Array(Vec::new());
            (fits, "`null`, `boolean`, `object`, `array`, `number`, `integer` or `string`")
        }
        "enum" | "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            (filled(), "a list with something in it")
        }
        "properties" | "$defs" | "definitions" => {
            (rule.is_object(), "an object with a schema for each name")
        }
        "patternProperties" => (rule.is_object(), "an object with a schema for each pattern"),
        "required" => (rule.is_array() && texts(), "a list of names"),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            (rule.is_u64(), "a whole number of at least 0")
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            (rule.is_number(), "a number")
        }
        "multipleOf" => (rule.as_f64().is_some_and(|by| by > 0.0), "a number above 0"),
        "uniqueItems" => (rule.is_boolean(), "true or false"),
        "pattern" => (rule.is_string(), "a regular expression"),
        "$ref" => {
            let target = rule.as_str().and_then(|path| resolve(root, path));
            let fits = target.is_some_and(|target| target.is_object() || target.is_boolean());
            (fits, "the path of a schema in this one, such as `#/$defs/name`")
        }
        _ => (true, ""),
    };
    (!fits).then_some(wanted)
}

/// Returns the schemas inside a keyword's value, each with its path below the keyword.
fn parts<'a>(keyword: &str, rule: &'a Value) -> Vec<(String, &'a Value)> {
    match (keyword, rule) {
        ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(map)) => {
            map.iter().map(|(name, schema)| (format!(".{name}"), schema)).collect()
        }
        // `items` is a list of schemas before draft 2020-12.
        ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(list)) => {
            list.iter().enumerate().map(|(n, schema)| (format!("[{n}]"), schema)).collect()
        }
        (
            "items"
            | "additionalItems"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "not",
            schema,
        ) => vec![(String::new(), schema)],
        _ => Vec::new(),
    }
}
