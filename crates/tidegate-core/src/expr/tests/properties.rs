//! Properties that hold for all expressions and all events.

use proptest::prelude::*;

use super::*;
use crate::{
    expr::{json::quote, number},
    key::Decimal,
};

/// Generates JSON texts. Some of their values cannot be represented exactly.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        literal(),
        "[a-c]{0,2}".prop_map(|text| quote(&text)),
        any::<String>().prop_map(|text| quote(&text)),
        Just(r#""\ud800""#.to_owned()),
        Just("1e99999999999".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let members = prop::collection::vec(("[a-c]", inner.clone()), 0..4).prop_map(|members| {
            let members = members.into_iter().map(|(name, value)| format!("\"{name}\" : {value}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        });
        let elements = prop::collection::vec(inner, 0..4);
        prop_oneof![members, elements.prop_map(|items| format!("[ {} ]", items.join(",")))]
    })
}

/// Generates the data of an event, with the members that the generated expressions use.
fn data() -> impl Strategy<Value = String> {
    let members = (json(), json(), json());
    members.prop_map(|(a, b, c)| format!(r#"{{"a":{a},"b":{b},"c":{c}}}"#))
}

fn literal() -> impl Strategy<Value = String> {
    (-12..12_i64, -2..3_i32).prop_map(|(digits, power)| format!("{digits}e{power}"))
}

/// Generates valid expressions.
fn expression() -> impl Strategy<Value = String> {
    let paths = r#"(event|async)[.]data[.](a|b|c|a[.]b|b\[0\]|c\["a"\])"#;
    let leaf = prop_oneof![
        4 => paths,
        1 => "(item|event|null|true|false|event[.]name|'x y'|\"[a-c]\")",
        1 => literal(),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operators = "(==|!=|<|<=|>|>=|in|&&|[|][|]|[+]|-|[*]|/|%)";
        let functions = "(size|int|double|string|lowercase|uppercase|timestamp|duration)";
        let methods = "(contains|startsWith|endsWith|matches)";
        let loops = "(exists|all|map|filter)";
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (two.clone(), operators, any::<bool>()).prop_map(|((a, b), sign, parentheses)| {
                if parentheses { format!("({a} {sign} {b})") } else { format!("{a} {sign} {b}") }
            }),
            ("(!|-|- -)", inner.clone()).prop_map(|(sign, a)| format!("{sign}{a}")),
            (two.clone(), inner.clone()).prop_map(|((a, b), c)| format!("({a}) ? {b} : {c}")),
            (functions, inner.clone()).prop_map(|(name, a)| format!("{name}({a})")),
            (methods, two.clone()).prop_map(|(name, (a, b))| format!("({a}).{name}({b})")),
            (loops, two.clone()).prop_map(|(name, (a, b))| format!("({a}).{name}(item, {b})")),
            two.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
            two.clone().prop_map(|(a, b)| format!("{{\"a\": {a}, string({b}): 1}}")),
            two.clone().prop_map(|(a, b)| format!("({a})[{b}]")),
            inner.prop_map(|a| format!("has(({a}).a)")),
        ]
    })
}

/// Evaluates an expression. Returns the canonical value, or the code of the error.
pub(super) fn outcome(expr: &Expr, variables: &[(&str, Value<'_>)], mode: Mode) -> String {
    let mut evaluator = Evaluator::new(variables, mode);
    let value = evaluator.eval(&expr.root).and_then(|value| evaluator.canonical(&value));
    value.unwrap_or_else(|error| error.code().to_owned())
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Strict), Just(Mode::Lenient)]
}

proptest! {
    #[test]
    fn no_text_and_no_payload_panics(
        text in prop_oneof![
            any::<String>(),
            "[a-c.0-9 ()\\[\\]{}?:!&|=<>+*/%,'\"\\\\u-]{0,40}",
            expression(),
        ],
        data in json(),
        mode in modes(),
    ) {
        if let Ok(expr) = Expr::parse(&text) {
            let (data, at) = (payload(&data), expr.to_string());
            let variables = [("event", Value::of(&data))];
            let _ = outcome(&expr, &variables, mode);
            let _ = expr.condition(&variables, mode);
            let _ = expr.key(&variables, mode);
            let _ = expr.bind("event", &Value::of(&data), mode);
            prop_assert_eq!(Expr::parse_bound(&at).unwrap().to_string(), at);
        }
    }

    #[test]
    fn an_expression_is_written_as_it_is_read(
        text in expression(),
        event in data(),
        newcomer in data(),
        mode in modes(),
    ) {
        let Ok(expr) = Expr::parse(&text) else {
            return Err(TestCaseError::reject("a literal pattern, or too deep"));
        };
        let written = expr.to_string();
        let again = Expr::parse_bound(&written).unwrap();
        prop_assert_eq!(again.to_string(), written);
        with_variables(&event, &newcomer, |variables| {
            prop_assert_eq!(outcome(&again, variables, mode), outcome(&expr, variables, mode));
            Ok(())
        })?;
    }

    #[test]
    fn binding_a_variable_changes_no_result(
        text in expression(),
        event in data(),
        newcomer in data(),
        mode in modes(),
    ) {
        let Ok(expr) = Expr::parse(&text) else {
            return Err(TestCaseError::reject("a literal pattern, or too deep"));
        };
        with_variables(&event, &newcomer, |variables| {
            if let Ok(bound) = expr.bind("event", &variables[0].1, mode) {
                let context = format!("`{text}` was bound to `{bound}`");
                prop_assert!(!bound.variables().contains("event"), "{}", context);
                let (after, before) =
                    (outcome(&bound, &variables[1..], mode), outcome(&expr, variables, mode));
                // Binding may remove parts with values that cannot be converted; then there is no
                // error any more.
                if before != "expression_bad_value" {
                    prop_assert_eq!(after, before, "{}", context);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn an_indexed_equality_and_the_rest_are_the_whole(
        value in prop_oneof!["'[a-c]?'", literal(), Just("true".to_owned())],
        (first, last) in (expression(), expression()),
        newcomer in data(),
        mode in modes(),
    ) {
        let text = format!("({first}) && async.data.a == {value} && ({last})");
        let Ok(expr) = Expr::parse(&text) else {
            return Err(TestCaseError::reject("a literal pattern, or too deep"));
        };
        let Some(indexed) = expr.indexed_equality("async", mode) else {
            prop_assert!(["''", "0e"].iter().any(|zero| value.starts_with(zero)), "{}", text);
            prop_assert_eq!(mode, Mode::Lenient);
            return Ok(());
        };
        with_variables("{}", &newcomer, |variables| {
            let data = payload(&newcomer);
            let key = Key::of(Some(&indexed.path), &data);
            let rest = indexed.rest.map_or(Ok(true), |rest| rest.condition(variables, mode));
            let both = rest.map(|rest| rest && key == Ok(Key::Value(indexed.value)));
            if let (Ok(whole), Ok(both)) = (expr.condition(variables, mode), both) {
                prop_assert_eq!(whole, both, "{}", text);
            }
            Ok(())
        })?;
    }

    // spec keys: numbers compare by exact decimal value.
    #[test]
    fn numbers_are_equal_exactly_when_their_keys_are(
        left in (-200..200_i64, -3..3_i32),
        right in (-200..200_i64, -3..3_i32),
    ) {
        let text = |(digits, power): (i64, i32)| format!("{digits}e{power}");
        let exact = |(digits, power): (i64, i32)| digits * 10_i64.pow((power + 3).unsigned_abs());
        let data = payload(&format!(r#"{{"a":{},"b":{}}}"#, text(left), text(right)));
        let fields = [("data", Value::of(&data))];
        let variables = [("event", Value::Record(&fields))];
        let is = |sign: &str| {
            let expr = Expr::parse(&format!("event.data.a {sign} event.data.b")).unwrap();
            expr.condition(&variables, Mode::Strict).unwrap()
        };
        let key = |name: &str| Key::of(Some(&Path::parse(name).unwrap()), &data);
        prop_assert_eq!(is("=="), key("a") == key("b"));
        prop_assert_eq!(is("<"), exact(left) < exact(right));
        prop_assert_eq!(is(">="), exact(left) >= exact(right));
    }

    #[test]
    fn arithmetic_agrees_with_integers(left in any::<i32>(), right in any::<i32>()) {
        let [a, b] = [left, right].map(|it| Decimal::from(i64::from(it)));
        let (left, right) = (i64::from(left), i64::from(right));
        prop_assert_eq!(number::compare(&a, &b), left.cmp(&right));
        let product = number::product(&a, &b).unwrap();
        prop_assert_eq!(&product, &Decimal::from(left * right));
        if right != 0 {
            prop_assert_eq!(number::remainder(&a, &b).unwrap(), Decimal::from(left % right));
            prop_assert_eq!(number::quotient(&product, &b).unwrap(), a.clone());
            let quotient = number::quotient(&a, &b).unwrap();
            prop_assert_eq!(number::whole(&quotient), Decimal::from(left / right));
        }
    }

    // spec keys: an expression that is only a path gives the same key as this path.
    #[test]
    fn a_bare_path_gives_the_key_of_the_path(
        names in prop::collection::vec("[abc]|[01]|\\PC", 1..4),
        data in json(),
    ) {
        let brackets = names.iter().map(|name| quote(name)).collect::<Vec<_>>().join("][");
        let expr = Expr::parse(&format!("event.data[{brackets}]")).unwrap();
        let path = Path::from_names(names).unwrap();
        prop_assert_eq!(expr.as_path(), Some(path.clone()));
        let data = payload(&data);
        let fields = [("data", Value::of(&data))];
        let variables = [("event", Value::Record(&fields))];
        match (expr.key(&variables, Mode::Strict), Key::of(Some(&path), &data)) {
            (Ok(key), expected) => prop_assert_eq!(key, Some(expected.unwrap())),
            (Err(error), Ok(key)) => {
                prop_assert_eq!((error.code(), key), ("expression_wrong_type", Key::Missing));
            }
            (Err(error), Err(_)) => prop_assert_eq!(error.code(), "expression_bad_value"),
        }
    }
}
