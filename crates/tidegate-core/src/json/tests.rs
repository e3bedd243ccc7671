use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::key::Key;

fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes(), MAX_EVENT_BYTES).unwrap()
}

/// Compares the values at the paths in `data` with a table: `path -> value`.
#[track_caller]
fn check(data: &str, table: Expect) {
    let data = payload(data);
    let lines: Vec<String> = table
        .data
        .lines()
        .filter_map(|line| line.trim().split_once(" ->"))
        .map(|(path, _)| {
            let key = Key::of(Some(&Path::parse(path).unwrap()), &data);
            let found = match key {
                Ok(Key::Value(Scalar::Text(text))) => format!("{text:?}"),
                Ok(key) => key.to_string(),
                Err(error) => format!("error: {error}"),
            };
            format!("{path} -> {found}\n")
        })
        .collect();
    table.assert_eq(&lines.concat());
}

// spec B52
#[test]
fn a_dotted_path_reads_the_nested_field() {
    check(
        r#" { "user" : { "id" : "u1", "tags": ["a", "b\n"] }, "items": [ {"id": 7}, [true] ],
             "user.id": "flat", "0": "zero", "": 1, "x\"}": {"y": -0.0} } "#,
        expect![[r#"
            user.id -> "u1"
            user.tags.1 -> "b\n"
            user.tags.2 -> (missing)
            user.tags.01 -> (missing)
            user.tags.-1 -> (missing)
            user.tags.length -> (missing)
            items.0.id -> 7
            items.1.0 -> true
            items.99999999999999999999 -> (missing)
            0 -> "zero"
            x"}.y -> 0
        "#]],
    );
}

// spec B54
#[test]
fn a_field_named_like_an_expression_is_read_as_a_field() {
    check(
        r#"{"a + b": 3, "a": 1, "b": 2, "event": {"data": {"x == 1": "yes"}}}"#,
        expect![[r#"
            a + b -> 3
            event.data.x == 1 -> "yes"
            a == 1 -> (missing)
        "#]],
    );
}

// spec B56, B57, keys: null, absent, object and array all count as missing.
#[test]
fn what_is_no_scalar_is_missing() {
    check(
        r#"{"null": null, "object": {}, "array": [], "list": [1], "text": "", "no": false, "n": 0}"#,
        expect![[r#"
            null -> (missing)
            object -> (missing)
            array -> (missing)
            list -> (missing)
            absent -> (missing)
            text.x -> (missing)
            null.x -> (missing)
            object.x -> (missing)
            array.0 -> (missing)
            text -> ""
            no -> false
            n -> 0
        "#]],
    );
}

#[test]
fn of_a_name_given_twice_the_last_one_counts() {
    check(
        r#"{"a": 1, "b": {"x": 1}, "\u0061": 2, "b": 5}"#,
        expect![[r#"
            a -> 2
            b -> 5
            b.x -> (missing)
        "#]],
    );
}

// spec keys: numbers are read from their text.
#[test]
fn a_number_keeps_every_digit() {
    check(
        r#"{"a": 9007199254740993, "b": 1e400, "c": 0.10, "d": 1e99999999999, "e":[1.0]}"#,
        expect![[r#"
            a -> 9007199254740993
            b -> 1e400
            c -> 0.1
            d -> error: key `d`: the exponent of `1e99999999999` does not fit in 32 bits
            e.0 -> 1
        "#]],
    );
}

#[test]
fn a_lone_surrogate_spoils_the_key_and_not_the_payload() {
    let text = r#"{"a":{"b":"\ud800"},"ok":"\ud83d\ude00 \u0000","\udc00":1}"#;
    check(
        text,
        expect![[r#"
            a.b -> error: key `a.b`: the string contains a lone surrogate
            ok -> "😀 \0"
        "#]],
    );
    assert_eq!(payload(text).as_str(), text);
}

#[test]
fn a_long_string_is_known_by_its_digest() {
    let data = payload(&json!({"a": "x".repeat(1025), "b": "x".repeat(1024)}).to_string());
    let read = |path| data.scalar(&Path::parse(path).unwrap()).unwrap();
    assert!(matches!(read("a"), Some(Scalar::Long { .. })));
    assert!(matches!(read("b"), Some(Scalar::Text(_))));
}

#[test]
fn a_payload_is_refused_with_the_place_and_the_value() {
    let cases: [&[u8]; 14] = [
        b"",
        b" ",
        b"{",
        b"{\"a\":\n 1,}",
        b"[1,\n2,\n x]",
        b"1 2",
        b"01",
        b"\"a",
        b"\"\\x\"",
        b"\"\\uZZZZ\"",
        b"\"a\nb\"",
        b"nul",
        b"\"\xff\"",
        b"\"0123456789012345678901234567890\"",
    ];
    let errors = cases.map(|bytes| {
        let error = Payload::parse(bytes, 32).unwrap_err();
        format!("{}: {error}", error.code())
    });
    expect![[r#"
        payload_not_json: payload must be JSON, got an error at offset 0: EOF while parsing a value
        payload_not_json: payload must be JSON, got an error at offset 1: EOF while parsing a value
        payload_not_json: payload must be JSON, got an error at offset 1: EOF while parsing an object
        payload_not_json: payload must be JSON, got an error at offset 10: key must be a string
        payload_not_json: payload must be JSON, got an error at offset 9: expected value
        payload_not_json: payload must be JSON, got an error at offset 3: trailing characters
        payload_not_json: payload must be JSON, got an error at offset 2: invalid number
        payload_not_json: payload must be JSON, got an error at offset 2: EOF while parsing a string
        payload_not_json: payload must be JSON, got an error at offset 3: invalid escape
        payload_not_json: payload must be JSON, got an error at offset 7: invalid escape
        payload_not_json: payload must be JSON, got an error at offset 2: control character (\u0000-\u001F) found while parsing a string
        payload_not_json: payload must be JSON, got an error at offset 3: EOF while parsing a value
        payload_not_utf8: payload must be UTF-8, got an invalid byte at offset 1
        payload_too_large: payload must be at most 32 bytes, got 33"#]].assert_eq(&errors.join("\n"));
}

#[test]
fn depth_is_bounded_without_recursion() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Payload::parse(nested(128).as_bytes(), MAX_EVENT_BYTES).is_ok());
    let error = Payload::parse(nested(129).as_bytes(), MAX_EVENT_BYTES).unwrap_err();
    expect!["payload must nest at most 128 deep, got 129"].assert_eq(&error.to_string());
    let error = Payload::parse(nested(250_000).as_bytes(), MAX_EVENT_BYTES).unwrap_err();
    assert_eq!(error, PayloadError::TooDeep { depth: 250_000 });
    // Brackets inside strings do not nest.
    let quoted = format!("\"\\\"{}\"", "[".repeat(200));
    assert!(Payload::parse(quoted.as_bytes(), MAX_EVENT_BYTES).is_ok());
}

#[test]
fn a_payload_is_stored_as_text_and_kept_byte_for_byte() {
    let data = payload(" {\"a\" : 1.0e0,\n\"a\":2}\t");
    let stored = serde_json::to_value(&data).unwrap();
    assert_eq!(stored, json!(" {\"a\" : 1.0e0,\n\"a\":2}\t"));
    assert_eq!(serde_json::from_value::<Payload>(stored).unwrap(), data);
    assert!(serde_json::from_value::<Payload>(json!("{")).is_err());
    assert_eq!(Payload::from_value(&json!({"a": null})).as_str(), r#"{"a":null}"#);
    assert_eq!(Payload::null().as_str(), "null");
}

/// Generates small values of every type.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ab\"\\\\{}\\[\\],:\u{e9}\n ]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab\"\\\\0]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// The scanner agrees with a parser that builds the whole tree.
    #[test]
    fn the_scanner_finds_what_a_parser_finds(
        value in values(),
        names in prop::collection::vec("[ab\"\\\\012]{1,2}", 1..4),
        pretty in any::<bool>(),
    ) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let data = payload(&text);
        let expected = names.iter().try_fold(&value, |at, name| match at {
            Value::Object(map) => map.get(name),
            Value::Array(list) if name == "0" || !name.starts_with('0') => {
                list.get(name.parse::<usize>().ok()?)
            }
            Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_)
            | Value::String(_) => None,
        });
        let expected = match expected {
            Some(Value::String(text)) => Some(Scalar::text(text.clone())),
            Some(Value::Bool(value)) => Some(Scalar::Bool(*value)),
            Some(Value::Number(number)) => {
                Some(Scalar::number(Decimal::parse(&number.to_string()).unwrap()))
            }
            _ => None,
        };
        prop_assert_eq!(data.scalar(&Path::from_names(names).unwrap()).unwrap(), expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>(), text in "[\\[\\]{}\",:\\\\a0 ]{0,20}") {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            if let Ok(data) = Payload::parse(bytes, 1000) {
                let _ = data.scalar(&Path::parse("a.0").unwrap());
            }
        }
    }
}
