//! Compares every answer of the tests with the OpenAPI document: its status is listed, its body
//! fits the schema and has no member that the schema does not have, and an error code is one of the
//! documented ones.

use std::{collections::BTreeSet, sync::LazyLock};

use serde_json::{Map, Value, json, value::RawValue};
use tidegate_core::schema;

const REFERENCE: [&str; 2] = [
    include_str!("../../../../docs/reference/errors.md"),
    include_str!("../../../../docs/reference/http.md"),
];

/// The OpenAPI document, changed so that its schemas refuse unknown members.
static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/reference/openapi.json");
    let mut description: Value = serde_json::from_str(text).unwrap();
    let schemas = description["components"]["schemas"].as_object_mut().unwrap();
    schemas.values_mut().for_each(|schema| close(schema, false));
    for operations in description["paths"].as_object_mut().unwrap().values_mut() {
        for operation in operations.as_object_mut().unwrap().values_mut() {
            for response in operation["responses"].as_object_mut().unwrap().values_mut() {
                let contents = response["content"].as_object_mut().into_iter().flatten();
                contents.for_each(|(_, content)| close(&mut content["schema"], false));
            }
        }
    }
    description
});

/// All error codes of the reference: words in backticks in the rows of its tables.
static CODES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let rows = REFERENCE.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with('|'));
    let cells = rows.flat_map(|row| row.split('|').skip(1).take(2));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
});

/// Makes an object schema refuse members that it does not list. A part of a composed schema stays
/// open if the whole schema lists further members.
fn close(schema: &mut Value, composed: bool) {
    let Some(rules) = schema.as_object_mut() else { return };
    let names_members = rules.contains_key("properties");
    for (keyword, rule) in rules.iter_mut() {
        match (keyword.as_str(), rule) {
            ("properties", Value::Object(members)) => {
                members.values_mut().for_each(|member| close(member, false));
            }
            ("items" | "additionalProperties", rule) => close(rule, false),
            ("anyOf" | "oneOf" | "allOf", Value::Array(parts)) => {
                for part in parts {
                    close(part, composed || names_members);
                }
            }
            _ => {}
        }
    }
    if names_members && !composed && !rules.contains_key("additionalProperties") {
        rules.insert("unevaluatedProperties".to_owned(), false.into());
    }
}

/// Returns the operations of the path template that fits best: the one with the fewest parameters.
fn operations_at(path: &str) -> Option<(&'static str, &'static Map<String, Value>)> {
    let parts: Vec<_> = path.split('/').collect();
    let paths = DESCRIPTION["paths"].as_object().unwrap().iter();
    let fitting = paths.filter(|(template, _)| {
        let template: Vec<_> = template.split('/').collect();
        let fits = |(part, own): (&&str, &&str)| own.starts_with('{') || part == own;
        template.len() == parts.len() && parts.iter().zip(&template).all(fits)
    });
    let best = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
    Some((best.0.as_str(), best.1.as_object().unwrap()))
}

/// Checks one answer against the document.
pub(crate) fn check(method: &str, path: &str, status: u16, kind: &str, body: &str) {
    let method = method.to_ascii_lowercase();
    let path = path.split('?').next().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    let operation = operations_at(path).filter(|(_, methods)| methods.contains_key(&method));
    let at = format!("{method} {path}: {status}");
    let schema = match operation {
        Some((template, operations)) => {
            let response = &operations[&method]["responses"][status.to_string()];
            assert!(response.is_object(), "{at}: the document does not list this status: {body}");
            let Some(contents) = response["content"].as_object() else {
                return assert_eq!(body, "", "{at}: the document describes no body");
            };
            if kind == "text/event-stream" && status == 200 {
                return;
            }
            assert!(
                contents.contains_key(kind),
                "{at}: the document does not list the content type {kind}"
            );
            let [template, kind] = [template, kind].map(|it| it.replace('/', "~1"));
            format!("#/paths/{template}/{method}/responses/{status}/content/{kind}/schema")
        }
        // The path is not an operation: the answer is a file of the console or an error.
        None if kind != "application/problem+json" => return,
        None => "#/components/schemas/Problem".to_owned(),
    };
    if !kind.ends_with("json") {
        return;
    }
    let is_json = serde_json::from_str::<&RawValue>(body).is_ok();
    assert!(is_json, "{at}: the body is not JSON: {body}");
    // A payload may have numbers and escapes that a `Value` cannot hold: these are not checked.
    let Ok(answer) = serde_json::from_str::<Value>(body) else { return };
    let mut root = DESCRIPTION.as_object().unwrap().clone();
    root.insert("$ref".to_owned(), schema.into());
    if let Err(mismatch) = schema::check(&Value::Object(root), &answer, "answer") {
        panic!("{at}: {mismatch}\n{answer:#}");
    }
    if kind == "application/problem+json" {
        let problems = answer["problems"].as_array().into_iter().flatten();
        for code in problems.map(|problem| &problem["code"]).chain([&answer["error"]]) {
            let code = code.as_str().unwrap_or_default();
            assert!(CODES.contains(code), "{at}: `{code}` is not in docs/reference");
        }
    }
}

/// The check refuses wrong answers.
#[test]
fn answers_that_are_not_described_are_refused() {
    let said = |method: &str, path: &str, status, kind: &str, body: Value| {
        let (method, path, kind) = (method.to_owned(), path.to_owned(), kind.to_owned());
        let checked =
            std::thread::spawn(move || check(&method, &path, status, &kind, &body.to_string()));
        checked.join().map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
    };
    let json = "application/json";
    let health = json!({ "status": "ok", "version": "1", "demo": false });
    assert_eq!(said("GET", "/health", 200, json, health.clone()), Ok(()));
    let mut more = health.clone();
    more["more"] = 1.into();
    let less = json!({ "status": "ok", "version": "1" });
    let wrong = json!({ "status": "ok", "version": "1", "demo": "no" });
    let problem = json!({ "title": "", "status": 404, "error": "no_such_code", "detail": "" });
    for (path, status, kind, body, expected) in [
        ("/health", 200, json, more, "`answer.more` is not allowed"),
        ("/health", 200, json, less, "`answer.demo` is required"),
        ("/health", 200, json, wrong, "`answer.demo` must have type"),
        ("/health", 201, json, health.clone(), "does not list this status"),
        ("/health", 200, "text/plain", health, "does not list the content type text/plain"),
        ("/nothing", 404, "application/problem+json", problem, "`no_such_code` is not in docs"),
    ] {
        let error = said("GET", path, status, kind, body).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
