use expect_test::expect;
use proptest::prelude::*;

use super::*;

/// Generates keys of every kind, among them similar ones that a wrong encoding would confuse.
fn keys() -> impl Strategy<Value = Key> {
    let text = prop_oneof![
        any::<String>(),
        "[0-9tfw]{0,3}",
        (1020..1030_usize, "[ab\u{e9}]").prop_map(|(length, part)| part.repeat(length)),
    ];
    let number = prop_oneof![
        (any::<i64>(), any::<i32>()).prop_map(|(digits, power)| format!("{digits}e{}", power / 2)),
        (-12..12_i32, -2..2_i32).prop_map(|(digits, power)| format!("{digits}e{power}")),
        (1020..1030_usize).prop_map(|length| "7".repeat(length)),
    ];
    let value = prop_oneof![
        any::<bool>().prop_map(Scalar::Bool),
        text.prop_map(Scalar::text),
        number.prop_map(|text| Scalar::number(Decimal::parse(&text).unwrap())),
    ];
    prop_oneof![
        1 => Just(Key::Whole),
        1 => Just(Key::Missing),
        3 => value.clone().prop_map(Key::Value),
        3 => prop::collection::vec(value, 0..5).prop_map(Key::of_values),
    ]
}

fn encode(key: &Key) -> Vec<u8> {
    let mut out = Vec::new();
    key.encode_into(&mut out);
    out
}

proptest! {
    // spec keys: the bytes begin with the type, differ for different keys, and are the same on
    // every store.
    #[test]
    fn stored_keys_are_equal_exactly_when_the_keys_are(left in keys(), right in keys()) {
        prop_assert_eq!(left == right, encode(&left) == encode(&right));
    }

    #[test]
    fn a_stored_key_is_read_back_whatever_follows_it(
        key in keys(),
        rest in any::<Vec<u8>>(),
    ) {
        let mut bytes = encode(&key);
        let length = bytes.len();
        prop_assert!(length <= MAX_VALUE_BYTES + 16);
        bytes.extend(rest);
        prop_assert_eq!(Key::decode(&bytes), Some((key.clone(), length)));
        prop_assert_eq!(Key::decode(&bytes[..length - 1]), None);
        let json = serde_json::to_string(&key).unwrap();
        prop_assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
    }

    #[test]
    fn only_one_spelling_of_a_key_is_read(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        if let Some((key, length)) = Key::decode(&bytes) {
            prop_assert_eq!(encode(&key), &bytes[..length]);
        }
    }

    #[test]
    fn tuples_are_injective(
        left in prop::collection::vec("[ab\u{0}]{0,3}", 0..4),
        right in prop::collection::vec("[ab\u{0}]{0,3}", 0..4),
    ) {
        let write = |parts: &[String]| {
            let mut out = Vec::new();
            for part in parts {
                push_part(&mut out, part.as_bytes());
            }
            out
        };
        prop_assert_eq!(left == right, write(&left) == write(&right));
        let (bytes, mut read) = (write(&left), Vec::new());
        let mut rest = bytes.as_slice();
        while let Some((part, after)) = take_part(rest) {
            read.push(String::from_utf8(part.to_vec()).unwrap());
            rest = after;
        }
        prop_assert_eq!(read, left);
    }
}

#[test]
fn the_stored_bytes_never_change() {
    let keys = [
        Key::Whole,
        Key::Missing,
        Key::Value(Scalar::Bool(true)),
        Key::Value(Scalar::text("acme".to_owned())),
        Key::Value(Scalar::number(Decimal::parse("-12.50").unwrap())),
        Key::Value(Scalar::text("é".repeat(600))),
        Key::Value(Scalar::number(Decimal::parse(&"7".repeat(1025)).unwrap())),
        Key::of_values(vec![Scalar::text("a".to_owned()), Scalar::Bool(false)]),
        Key::of_values(vec![Scalar::text("a".repeat(1000)), Scalar::text("b".repeat(1000))]),
    ];
    let table: Vec<String> =
        keys.iter().map(|key| format!("{key} -> {}", encode(key).escape_ascii())).collect();
    expect![[r#"
        (whole) -> w
        (missing) -> m
        true -> t
        acme -> s\x00\x04acme
        -12.5 -> n\x01\xff\xff\xff\xff\x00\x03125
        éééééééééééééééééééééééééééééééé… -> h\t\xf0\x9d\xc1(\xc5\x04yU\xfd:\xcfF\x14\xa5\n\xef\x83QV<\x0b\xfc\x16\x88\xde\xaaA\xc6\xa6_.\x00@\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9
        7777777777777777777777777777777777777777777777777777777777777777… -> h\x1c\x84\x1f\x15\xba/\xda\x89\xb0\xb2\x80-:_\xbc\xd5\xaf!\x98\x81\xa1\x10\xffL\xe6\xfe\xbc\x96\xcc\xae\xe1\x9e\x00@7777777777777777777777777777777777777777777777777777777777777777
        a, false -> v\x02s\x00\x01af
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… -> h-\xc3sZmu\x1a3\r\xbf\xae\x19\xdb\x01\xe4h\x11\xd3N\xd9\xcc\xf9IR.v\xdb\xd6\x08\x9f\xb1\x9e\x00@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"#]].assert_eq(&table.join("\n"));
}

// spec keys: `1`, `"1"` and `true` are three keys.
#[test]
fn types_stay_apart() {
    let data = Payload::parse(br#"{"a":1,"b":"1","c":true,"d":"true","e":1.0}"#, 100).unwrap();
    let key = |path: &str| encode(&Key::of(Some(&Path::parse(path).unwrap()), &data).unwrap());
    assert_eq!(key("a"), key("e"));
    assert_ne!(key("a"), key("b"));
    assert_ne!(key("a"), key("c"));
    assert_ne!(key("c"), key("d"));
}

// spec keys: values over 1 KiB are hashed; a text and a number with the same digits differ.
#[test]
fn long_values_differ_by_what_lies_behind_their_beginning() {
    let digits = "7".repeat(2000);
    let text = Scalar::text(digits.clone());
    assert_ne!(text, Scalar::text(format!("{digits}8")));
    assert_ne!(text, Scalar::number(Decimal::parse(&digits).unwrap()));
    assert_eq!(encode(&Key::Value(Scalar::Text(digits))), encode(&Key::Value(text)));
}

// spec B55, B56: a control without a key and an event without the key give different keys.
#[test]
fn no_key_is_the_whole_workflow_and_a_missing_one_is_told_apart() {
    let data = Payload::parse(br#"{"a":null}"#, 100).unwrap();
    assert_eq!(Key::of(None, &data), Ok(Key::Whole));
    assert_eq!(Key::of(Some(&Path::parse("a").unwrap()), &data), Ok(Key::Missing));
}

// spec L13: the values of several paths are never joined to a text.
#[test]
fn keys_of_several_values_differ_where_their_texts_do_not() {
    let key = |texts: &[&str]| {
        let values = texts.iter().map(|text| Scalar::text((*text).to_owned())).collect();
        encode(&Key::of_values(values))
    };
    let lists: [&[&str]; 6] =
        [&["a", "b, c"], &["a, b", "c"], &["a", "b", "c"], &["a, b, c"], &["", "a"], &["a", ""]];
    for (n, list) in lists.iter().enumerate() {
        for other in &lists[..n] {
            assert_ne!(key(list), key(other), "{list:?} {other:?}");
        }
    }
    let long = "x".repeat(600);
    assert_ne!(key(&[&long, &long, "a"]), key(&[&long, &long, "b"]));
    assert_ne!(key(&[&long, &long]), key(&[&long, &long, ""]));
}
