//! `GET /openapi.json`: the OpenAPI document, generated from the operations.

use std::sync::LazyLock;

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};

use super::{operation::Operation, schema::Schemas};

/// Returns the HTTP operations that this file defines.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/openapi.json", "describe", show)
            .says("Get this OpenAPI document.")
            .open()
            .answers::<Map<String, Value>>(200, "An OpenAPI document."),
    ]
}

async fn show() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

/// Returns the whole OpenAPI document.
pub(crate) fn document() -> Value {
    let (mut paths, mut schemas) = (Map::new(), Schemas::new());
    for operation in super::operations() {
        let (method, description) = operation.describe(&mut schemas);
        paths.entry(operation.path).or_insert_with(|| json!({}))[method] = description;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate", "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable workflow engine with flow control.",
        },
        "security": [{ "key": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas.into_named(),
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use serde_json::Value;

    use super::document;

    #[test]
    fn every_schema_that_is_named_is_described() {
        let document = document();
        let text = document.to_string();
        let named = text.split("\"#/components/schemas/").skip(1);
        for name in named.filter_map(|rest| rest.split_once('"').map(|(name, _)| name)) {
            assert!(
                document["components"]["schemas"][name].is_object(),
                "the document has no schema {name}"
            );
        }
    }

    /// Calls `look` with every part of a value and its path; references are followed.
    fn walk(document: &Value, value: &Value, place: &str, look: &mut impl FnMut(&str, &Value)) {
        look(place, value);
        if let Some(name) = value["$ref"].as_str() {
            let named = document.pointer(name.trim_start_matches('#'));
            walk(document, named.unwrap(), &format!("{place} {name}"), look);
        }
        match value {
            Value::Object(members) => {
                for (name, part) in members {
                    walk(document, part, &format!("{place}/{name}"), look);
                }
            }
            Value::Array(items) => {
                for part in items {
                    walk(document, part, place, look);
                }
            }
            _ => {}
        }
    }

    /// Every number that a client sends has its bounds in the document. So a client that follows
    /// the document is not rejected. Fuzzing would find a missing bound only by chance.
    #[test]
    fn every_number_that_a_client_sends_has_both_ends() {
        let document = document();
        let mut seen = 0;
        walk(&document, &document["paths"], "", &mut |place, part| {
            let sent = place.contains("/parameters") || place.contains("/requestBody");
            if sent && part["type"] == "integer" {
                assert!(
                    part["minimum"].is_i64() && part["maximum"].is_number(),
                    "{place}: a number in a request needs minimum and maximum, got {part}"
                );
                seen += 1;
            }
        });
        assert!(seen > 10, "{seen} numbers");
    }

    /// Compares the document with the checked-in file, so that a change of the API is seen in
    /// review. `UPDATE_EXPECT=1` writes the file again.
    #[test]
    fn the_description_is_the_one_that_was_agreed() {
        let text = format!("{:#}\n", document());
        expect_file!["../../../../docs/reference/openapi.json"].assert_eq(&text);
    }
}
