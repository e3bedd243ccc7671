use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{op::apply, *};
use crate::{json::MAX_EVENT_BYTES, key::Decimal};

fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes(), MAX_EVENT_BYTES * 8).unwrap()
}

fn op(verb: &str, at: &str, value: &str) -> SessionOp {
    let path = path(at).unwrap();
    match verb {
        "get" => SessionOp::Get { path },
        "set" => SessionOp::Set { path, value: payload(value) },
        "merge" => SessionOp::Merge { path, value: payload(value) },
        "append" => SessionOp::Append { path, value: payload(value) },
        "increment" => SessionOp::Increment { path, by: Decimal::parse(value).unwrap() },
        other => panic!("the test uses an unknown operation `{other}`"),
    }
}

/// Applies operations, each written as verb, path (`-` for none) and value. Compares the answers
/// and, after `|`, the documents with the expected text.
#[track_caller]
fn check(document: &str, table: Expect) {
    let lines = table.data.lines().filter_map(|line| line.trim().split_once(" -> "));
    let told: Vec<String> = lines
        .map(|(line, _)| {
            let mut words = line.splitn(3, ' ');
            let (verb, path) = (words.next().unwrap(), words.next().unwrap());
            let path = if path == "-" { "" } else { path };
            match apply(&payload(document), &op(verb, path, words.next().unwrap_or_default())) {
                Ok(done) => {
                    let body = done.body.map(|body| format!(" | {}", body.as_str()));
                    format!("{line} -> {}{}\n", done.value.as_str(), body.unwrap_or_default())
                }
                Err(error) => format!("{line} -> {}: {error}\n", error.to_fault().code),
            }
        })
        .collect();
    table.assert_eq(&told.concat());
}

// spec sessions: set, merge, append, increment.
#[test]
fn every_operation_does_what_it_says_and_touches_nothing_else() {
    check(
        r#"{"n":1.50, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993}"#,
        expect![[r#"
            get n -> 1.50
            get o.b -> 2
            get list.0 -> 1
            get nothing.here -> null
            get - -> {"n":1.50, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993}
            set s "y" -> "y" | {"n":1.50, "s":"y", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993}
            set new.deep [] -> [] | {"n":1.50, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993,"new":{"deep":[]}}
            set - 7 -> 7 | 7
            merge o {"a":null,"c":3} -> {"b":2,"c":3} | {"n":1.50, "s":"x", "list":[1], "o":{"b":2,"c":3}, "big":9007199254740993}
            merge made {"a":1} -> {"a":1} | {"n":1.50, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993,"made":{"a":1}}
            append list {"text":"hi"} -> 2 | {"n":1.50, "s":"x", "list":[1,{"text":"hi"}], "o":{"a":1, "b":2}, "big":9007199254740993}
            append made.list 1 -> 1 | {"n":1.50, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993,"made":{"list":[1]}}
            increment big 1 -> 9007199254740994 | {"n":1.50, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740994}
            increment n 0.25 -> 1.75 | {"n":1.75, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993}
            increment made -1 -> -1 | {"n":1.50, "s":"x", "list":[1], "o":{"a":1, "b":2}, "big":9007199254740993,"made":-1}
        "#]],
    );
}

#[test]
fn what_does_not_fit_is_told_with_the_place_and_the_reason() {
    check(
        r#"{"n":1, "s":"x", "list":[1], "o":{"a":1}, "b":true, "far":1e400000}"#,
        expect![[r#"
            append n 1 -> SessionTypeMismatch: cannot append at `n`: the value is a number
            append - 1 -> SessionTypeMismatch: cannot append at the document: the value is an object
            increment s 1 -> SessionTypeMismatch: cannot increment at `s`: the value is text
            increment b 1 -> SessionTypeMismatch: cannot increment at `b`: the value is true or false
            merge list {} -> SessionTypeMismatch: cannot merge at `list`: the value is a list
            merge o [1] -> SessionTypeMismatch: cannot merge at `o`: the given value is a list
            set n.x 1 -> SessionTypeMismatch: cannot set at `n.x`: the value at `n` is a number
            set list.1 1 -> SessionTypeMismatch: cannot set at `list.1`: the list at `list` has 1 elements, but no element `1`
            set list.x.y 1 -> SessionTypeMismatch: cannot set at `list.x.y`: the list at `list` has 1 elements, but no element `x`
            append o.a.b 1 -> SessionTypeMismatch: cannot append at `o.a.b`: the value at `o.a` is a number
            increment far 1 -> SessionNumber: cannot increment at `far`: the sum would have more than 1024 digits
        "#]],
    );
}

/// The limits of size and depth apply to every operation.
#[test]
fn a_document_has_bounds() {
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let full = payload(&text(MAX_SESSION_BYTES));
    assert!(apply(&Payload::null(), &op("set", "", full.as_str())).is_ok());
    for (verb, at) in [("set", "a"), ("append", "a"), ("append", "")] {
        let error = apply(&Payload::null(), &op(verb, at, full.as_str())).unwrap_err();
        assert_eq!(error.code(), "session_too_large", "{verb} {at}: {error}");
    }
    let patch = format!(r#"{{"a":{}}}"#, full.as_str());
    assert_eq!(
        apply(&Payload::null(), &op("merge", "", &patch)).unwrap_err().code(),
        "session_too_large"
    );

    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(apply(&Payload::null(), &op("set", "a", &deep(MAX_DEPTH - 1))).is_ok());
    let error = apply(&Payload::null(), &op("set", "a", &deep(MAX_DEPTH))).unwrap_err();
    assert_eq!(error, SessionError::TooDeep { depth: MAX_DEPTH + 1 });
    // A serialized type of a program may have any depth.
    let nested = (0..200).fold(json!({}), |inner, _| json!({ "in": inner }));
    let merge = SessionOp::Merge { path: None, value: Payload::from_value(&nested) };
    assert_eq!(apply(&Payload::null(), &merge).unwrap_err().code(), "session_too_deep");
}

#[test]
fn an_outcome_comes_back_from_a_steps_output_as_it_was() {
    for text in [r#"{"value": 1.0, "version":9}"#, "null", "\"\\ud800\"", "1e400"] {
        let outcome = Outcome { version: 7, value: payload(text) };
        assert_eq!(Outcome::from_payload(&outcome.to_payload()), Some(outcome));
    }
    assert_eq!(Outcome::from_payload(&payload("{}")), None);
}

#[test]
fn a_session_needs_names_that_every_store_can_keep() {
    let session = |id: &str| SessionRef {
        app: "default".to_owned(),
        flow: "chat".to_owned(),
        id: id.to_owned(),
    };
    assert_eq!(super::check(&session("s-1")), Ok(()));
    for id in ["", "a\0b", &"x".repeat(257)] {
        assert_eq!(super::check(&session(id)).unwrap_err().code(), "session_bad_name");
    }
    let wide = SessionRef { flow: "🦀".repeat(200), ..session(&"🦀".repeat(200)) };
    assert_eq!(super::check(&wide).unwrap_err().code(), "session_bad_name");
}

/// Generates a document and a path, which may not exist in the document.
fn documents() -> impl Strategy<Value = (Value, String)> {
    let leaf = prop_oneof![Just(json!(null)), Just(json!("t")), any::<i32>().prop_map(Value::from)];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    (value, "([abc01](\\.[abc01]){0,3})?")
}

proptest! {
    /// Applying an operation to the text gives the same document as applying it to a tree.
    #[test]
    fn editing_text_is_editing_the_value((document, at) in documents(), value in any::<i32>()) {
        let names: Vec<&str> = at.split('.').filter(|name| !name.is_empty()).collect();
        let pointer = names.iter().fold(String::new(), |all, name| all + "/" + name);
        let body = Payload::from_value(&document);
        let read = apply(&body, &op("get", &at, "")).unwrap();
        let expected = document.pointer(&pointer).cloned().unwrap_or(Value::Null);
        prop_assert_eq!(serde_json::from_str::<Value>(read.value.as_str()).unwrap(), expected);

        let set = apply(&body, &op("set", &at, &value.to_string()));
        let then = set.map(|done| {
            serde_json::from_str::<Value>(done.body.unwrap().as_str()).unwrap()
        });
        prop_assert_eq!(then.ok(), set_in_tree(document, &names, value));
    }

    /// A `get` after a `set` returns the value, and setting it again has no effect.
    #[test]
    fn what_was_set_is_there((document, at) in documents(), value in any::<i32>()) {
        let set = op("set", &at, &value.to_string());
        if let Ok(done) = apply(&Payload::from_value(&document), &set) {
            let body = done.body.unwrap();
            let read = apply(&body, &op("get", &at, "")).unwrap().value;
            prop_assert_eq!(read.as_str(), value.to_string());
            prop_assert_eq!(apply(&body, &set).unwrap().body, Some(body));
        }
    }
}

/// Reference implementation of `set`, on a tree.
fn set_in_tree(document: Value, names: &[&str], value: i32) -> Option<Value> {
    let Some((name, rest)) = names.split_first() else { return Some(value.into()) };
    match document {
        Value::Object(mut map) => {
            let inner = map.remove(*name).unwrap_or(Value::Null);
            map.insert((*name).to_owned(), set_in_tree(inner, rest, value)?);
            Some(Value::Object(map))
        }
        Value::Array(mut list) => {
            let place = list.get_mut(name.parse::<usize>().ok()?)?;
            *place = set_in_tree(place.take(), rest, value)?;
            Some(Value::Array(list))
        }
        Value::Null => set_in_tree(json!({}), names, value),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
