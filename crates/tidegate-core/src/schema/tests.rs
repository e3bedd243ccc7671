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
        (json!({ "id": "ab", "more": 1 }), "`input.more` is not allowed, got 1"),
    ] {
        let mismatch = check(&order, &wrong, "input").unwrap_err().to_string();
        assert!(mismatch.contains(said), "{mismatch}");
    }
    // Numbers that a float cannot represent exactly.
    let large = json!({ "maximum": 9_007_199_254_740_992_u64 });
    assert!(check(&large, &json!(9_007_199_254_740_993_u64), "input").is_err());
}

/// For each keyword: a value that matches, a value that does not match, and the error.
#[test]
fn every_keyword_is_checked() {
    for (schema, fits, unfit, said) in [
        (json!({ "const": { "a": [1] } }), json!({ "a": [1.0] }), json!({ "a": [2] }), "const"),
        (json!({ "pattern": "^a+$" }), json!("aa"), json!("ab"), r#"must have pattern "^a+$""#),
        (json!({ "multipleOf": 0.01 }), json!(19.99), json!(0.005), "must have multipleOf 0.01"),
        (json!({ "multipleOf": 3 }), json!(9), json!(10), "must have multipleOf 3, got 10"),
        (json!({ "uniqueItems": true }), json!([1, "1"]), json!([1, 1.0]), "uniqueItems true"),
        (json!({ "minProperties": 1 }), json!({ "a": 1 }), json!({}), "minProperties 1"),
        (json!({ "maxProperties": 0 }), json!({}), json!({ "a": 1 }), "maxProperties 0"),
        (json!({ "not": { "type": "null" } }), json!(1), json!(null), "must not fit"),
        (json!({ "allOf": [{ "minimum": 1 }, { "maximum": 2 }] }), json!(2), json!(3), "maximum 2"),
        (
            json!({ "oneOf": [{ "minimum": 1 }, { "maximum": 2 }] }),
            json!(3),
            json!(1.5),
            "must fit exactly one schema of oneOf, but fits 2, got 1.5",
        ),
        (
            json!({ "prefixItems": [{ "type": "string" }], "items": false }),
            json!(["a"]),
            json!(["a", 1]),
            "`input.1` is not allowed",
        ),
        (
            json!({ "items": [{ "type": "string" }], "additionalItems": { "type": "null" } }),
            json!(["a", null]),
            json!(["a", 1]),
            r#"`input.1` must have type "null""#,
        ),
        (
            json!({ "patternProperties": { "^n": { "type": "null" } },
                "additionalProperties": { "type": "string" } }),
            json!({ "n1": null, "a": "b" }),
            json!({ "a": null }),
            r#"`input.a` must have type "string""#,
        ),
        (
            json!({ "propertyNames": { "maxLength": 1 } }),
            json!({ "a": 1 }),
            json!({ "ab": 1 }),
            "`input.ab` must have a name that fits",
        ),
        (
            json!({ "allOf": [{ "properties": { "a": {} } }], "properties": { "b": {} },
                "unevaluatedProperties": false }),
            json!({ "a": 1, "b": 2 }),
            json!({ "a": 1, "c": 2 }),
            "`input.c` is not allowed",
        ),
        (
            json!({ "properties": { "a": { "$ref": "#/$defs/n%25~1" } },
                "$defs": { "n%/": { "type": "null" } } }),
            json!({ "a": null }),
            json!({ "a": 1 }),
            r#"`input.a` must have type "null""#,
        ),
    ] {
        assert_eq!(check(&schema, &fits, "input"), Ok(()), "{schema} refuses {fits}");
        let mismatch = check(&schema, &unfit, "input").unwrap_err().to_string();
        assert!(mismatch.contains(said), "{schema}: {mismatch}");
    }
}

/// The error of a union is that of the only alternative that is possible by type or tag.
#[test]
fn a_mismatch_in_a_union_is_named_with_its_place() {
    let cat = json!({ "type": "object", "properties": { "kind": { "const": "cat" },
        "lives": { "maximum": 9 } }, "required": ["kind"] });
    let dog = json!({ "type": "object", "properties": { "kind": { "const": "dog" } },
        "required": ["kind", "name"] });
    let pets = json!({ "anyOf": [cat, dog, { "type": "null" }] });
    for (value, said) in [
        (json!({ "kind": "cat", "lives": 10 }), "`pet.lives` must have maximum 9, got 10"),
        (json!({ "kind": "dog" }), "`pet.name` is required, and absent"),
        (json!({ "kind": "cow" }), "`pet` must have anyOf"),
        (json!(1), "`pet` must have anyOf"),
    ] {
        let mismatch = check(&pets, &value, "pet").unwrap_err().to_string();
        assert!(mismatch.contains(said), "{mismatch}");
    }
}

/// A check ends for every schema and value.
#[test]
fn a_check_is_bounded() {
    let said = |schema: &Value, value: &Value| match check(schema, value, "input") {
        Ok(()) => "fits".to_owned(),
        Err(mismatch) => mismatch.to_string(),
    };
    let endless = json!({ "$ref": "#" });
    assert!(said(&endless, &json!(1)).contains("to check"));
    // A check that runs out of steps inside of `not` is not a match.
    let endless = json!({ "not": { "$ref": "#/not" } });
    assert!(said(&endless, &json!(1)).contains("to check"));
    // Two branches for each level: 2^100 checks.
    let branch = json!({ "items": { "$ref": "#" } });
    let branches = json!({ "oneOf": [branch, branch] });
    let deep = (0..100).fold(json!([1]), |value, _| json!([value]));
    assert!(said(&branches, &deep).contains("to check"));
    // A recursive schema is checked down to the maximum depth of a payload.
    let list = json!({ "$ref": "#/$defs/list", "$defs": { "list": { "anyOf": [
        { "type": "null" },
        { "type": "object", "properties": { "next": { "$ref": "#/$defs/list" } } } ] } } });
    let nested = |end: Value| (0..126).fold(end, |next, _| json!({ "next": next }));
    assert_eq!(said(&list, &nested(json!(null))), "fits");
    assert!(said(&list, &nested(json!(1))).contains(".next.next` must have anyOf"));
    // A pattern that takes exponential time with backtracking.
    let evil = json!({ "pattern": "^(a+)+$" });
    assert!(said(&evil, &json!(format!("{}b", "a".repeat(10_000)))).contains("pattern"));
    let long = json!({ "pattern": "a".repeat(1000) });
    assert!(said(&long, &json!("b".repeat(500_000))).contains("to check"));
}

#[test]
fn a_schema_that_would_not_be_kept_is_refused() {
    let problems = |schema: Value| {
        let action = json!({ "flow": "f", "name": "a", "schema": schema });
        Definition::parse(&action).map(drop).map_err(|errors| errors.to_string())
    };
    assert_eq!(problems(json!({ "type": "object", "title": "An order", "x-hint": 1 })), Ok(()));
    for (schema, said) in [
        (
            json!("object"),
            "schema must be a JSON Schema object such as {\"type\": \"object\"}, got \"object\"",
        ),
        (json!({ "type": "text" }), "schema.type must be `null`, `boolean`,"),
        (json!({ "type": [] }), "schema.type must be"),
        (json!({ "contains": {} }), "schema.contains is not supported"),
        (json!({ "minlength": 1 }), "did you mean `minLength`?"),
        (json!({ "required": "id" }), "schema.required must be a list of names"),
        (json!({ "enum": [] }), "schema.enum must be a list with something in it"),
        (json!({ "maxLength": -1 }), "schema.maxLength must be a whole number"),
        (json!({ "minimum": "1" }), "schema.minimum must be a number"),
        (json!({ "exclusiveMinimum": true }), "schema.exclusiveMinimum must be a number"),
        (json!({ "multipleOf": 0 }), "schema.multipleOf must be a number above 0"),
        (json!({ "properties": { "a": 1 } }), "schema.properties.a must be a schema, got 1"),
        (json!({ "$defs": { "a": { "minimum": "1" } } }), "schema.$defs.a.minimum must be"),
        (json!({ "anyOf": [{ "$ref": "#/$defs/a" }] }), "schema.anyOf[0].$ref must be the path"),
        (json!({ "$ref": "https://example.com/a.json" }), "schema.$ref must be the path"),
        (json!({ "$ref": "#/title", "title": "a" }), "schema.$ref must be the path"),
        (json!({ "items": [1] }), "schema.items[0] must be a schema"),
        (json!({ "title": "a".repeat(70_000) }), "schema must have at most 65536 bytes"),
    ] {
        let errors = problems(schema).unwrap_err();
        assert!(errors.contains(said), "{errors}");
    }
}

/// A pattern that cannot be checked is only a warning, because users cannot change generated
/// patterns.
#[test]
fn a_pattern_that_cannot_be_checked_is_a_warning() {
    let schema = json!({ "pattern": r"^(.)\1$", "patternProperties": { "(?<!a)b": {} } });
    let action = json!({ "flow": "f", "name": "a", "schema": schema });
    let warnings = Definition::parse(&action).unwrap().warnings;
    let texts: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].contains(r"schema.pattern `^(.)\1$` is not checked: backreferences"),
        "{texts:?}"
    );
    assert_eq!(check(&schema, &json!("ab"), "input"), Ok(()));
}
