use expect_test::expect_file;

use super::*;
use crate::json::{MAX_EVENT_BYTES, Payload};

mod properties;

const DATA: &str = r#" {"s":"abc","t":"","n":5,"z":0,"d":2.50,"neg":-3,"big":9007199254740993,
    "huge":123456789012345678901234567890,"yes":true,"no":false,"nil":null,"list":[1,2, 3 ],
    "words":["a","b"],"empty":[ ],"map":{"k":"v","x":{"y":1}},"none":{},"key":"k",
    "items":[{"id":1,"q":2},{"id":2,"q":0}],"mail":"Ann@Example.com","in":"in",
    "at":"2026-01-31T12:00:00Z","odd name":"o","dup":1,"dup":2,"esc":"a\"b\u00e9\n",
    "lone":"\ud800","far":1e99999999999,"x.y":7,"badpattern":"(" } "#;
const ASYNC: &str = r#"{"s":"abc","id":5}"#;

fn payload(text: &str) -> Payload {
    Payload::parse(text.as_bytes(), MAX_EVENT_BYTES).unwrap()
}

/// Calls `test` with the variables `event` and `async`, whose `data` are the given texts.
fn with_variables<T>(
    event: &str,
    newcomer: &str,
    test: impl FnOnce(&[(&str, Value<'_>)]) -> T,
) -> T {
    let (event, newcomer, user) = (payload(event), payload(newcomer), payload(r#"{"id":"u1"}"#));
    let event = [
        ("name", Value::text("shop/order.paid")),
        ("data", Value::of(&event)),
        ("user", Value::of(&user)),
        ("id", Value::text("01ABC")),
        ("ts", Value::number(1_700_000_000_000)),
        ("v", Value::text("1")),
    ];
    let newcomer = [("name", Value::text("b")), ("data", Value::of(&newcomer))];
    test(&[("event", Value::Record(&event)), ("async", Value::Record(&newcomer))])
}

fn result(text: &str, mode: Mode) -> String {
    with_variables(DATA, ASYNC, |variables| {
        let expr = Expr::parse(text);
        let value = expr.as_ref().map_err(Clone::clone).and_then(|it| it.evaluate(variables, mode));
        value.map_or_else(|error| format!("!{}", &error.code()[11..]), |value| value.to_json())
    })
}

/// Returns the table with newly computed results. The table has an expression on a line and its
/// results indented below it.
fn rows(table: &str, results: impl Fn(&str) -> Vec<String>) -> String {
    let expressions = table.lines().filter(|line| !line.starts_with(' '));
    let rows = expressions.map(|text| format!("{text}\n    {}\n", results(text).join("\n    ")));
    rows.collect()
}

#[test]
fn the_conformance_table_holds() {
    let table = include_str!("tests/conformance.txt");
    let mut rows = 0;
    let lines = table.lines().map(|line| {
        if line.is_empty() || line.starts_with('#') {
            return format!("{line}\n");
        }
        rows += 1;
        let expression = line.split(" → ").next().unwrap();
        let [strict, lenient] = [Mode::Strict, Mode::Lenient].map(|mode| result(expression, mode));
        let lenient = if lenient == strict { "=" } else { &lenient };
        format!("{expression} → {strict} → {lenient}\n")
    });
    expect_file!["tests/conformance.txt"].assert_eq(&lines.collect::<String>());
    assert!(rows >= 200, "{rows} rows");
}

#[test]
fn errors_name_the_place_the_rule_the_value_and_the_fix() {
    let message = |text: &str| {
        with_variables(DATA, ASYNC, |variables| match Expr::parse(text) {
            Ok(expr) => expr.evaluate(variables, Mode::Strict).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        })
    };
    let table = rows(include_str!("tests/errors.txt"), |text| vec![message(text)]);
    expect_file!["tests/errors.txt"].assert_eq(&table);
}

#[test]
fn texts_that_are_too_long_too_deep_or_too_wide_are_refused() {
    let refused = |text: &str| Expr::parse(text).unwrap_err().code();
    assert!(Expr::parse(&format!("'{}'", "é".repeat(MAX_CHARS - 2))).is_ok());
    assert_eq!(refused(&format!("'{}'", "é".repeat(MAX_CHARS - 1))), "expression_too_long");
    assert!(Expr::parse(&vec!["1"; MAX_DEPTH].join("+")).is_ok());
    assert!(Expr::parse(&vec!["a"; MAX_NODES - 1].join("||")).is_ok());
    let nested =
        |open: &str, close: &str, n: usize| format!("{}a{}", open.repeat(n), close.repeat(n));
    assert!(Expr::parse(&nested("(", ")", MAX_DEPTH - 1)).is_ok());
    for text in [
        vec!["1"; MAX_DEPTH + 1].join("+"),
        vec!["a"; MAX_NODES].join("||"),
        nested("(", ")", MAX_DEPTH),
        nested("!", "", 2 * MAX_DEPTH),
        nested("[", "]", MAX_DEPTH),
        nested("", ".size()", MAX_DEPTH),
        nested("", ".all(a, a)", MAX_DEPTH),
        nested("a?a:", "", MAX_DEPTH * 2),
        nested("a?", ":a", MAX_DEPTH * 2),
    ] {
        assert_eq!(refused(&text), "expression_too_complex", "{text}");
    }
}

#[test]
fn parentheses_are_written_where_they_are_needed() {
    for text in [
        "a - (b - c)",
        "a - b - c",
        "a / (b * c)",
        "(a + b) * c",
        "a == (b == c)",
        "-(a + b)",
        "(-5).size",
        "!(a && b)",
        "(a || b) && c || d",
        "a && (b && c)",
        "(a ? b : c) ? d : e",
        "a ? b : c ? d : e",
        "(a + b)[c].d[0][\"e f\"]",
        "[a, b].exists(x, x ? y : z)",
        "{\"a\": b ? c : d}",
        "has(a.b) in [has((a + b).c)]",
        "matches(a, b + c)",
    ] {
        assert_eq!(Expr::parse(text).unwrap().to_string(), text);
    }
}

/// The deepest allowed expressions need at most half of a worker's stack, and deeper ones are
/// refused before they overflow it.
#[test]
fn nesting_is_bounded_on_a_small_stack() {
    const STACK_BYTES: usize = 1024 * 1024;
    let ways =
        [("(", ")"), ("!", ""), ("- -", ""), ("[", "]"), ("", ".size()"), ("a?a:", ""), ("1+", "")];
    let test = move || {
        for (open, close) in ways {
            for n in [MAX_DEPTH - 2, MAX_BOUND_BYTES / 8] {
                let text = format!("{}a{}", open.repeat(n), close.repeat(n));
                if let Ok(expr) = Expr::parse_bound(&text) {
                    let _ = expr.evaluate(&[("a", Value::number(1))], Mode::Lenient);
                    assert!(n < MAX_DEPTH, "{open}a{close}");
                }
            }
        }
        // Payloads that are read from the store may nest deeper than a posted payload.
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep: Payload = serde_json::from_str(&format!("\"{deep}\"")).unwrap();
        let variables = [("event", Value::of(&deep))];
        let expr = Expr::parse("event == [1]").unwrap();
        let error = expr.evaluate(&variables, Mode::Strict).unwrap_err();
        assert_eq!(error.code(), "expression_bad_value");
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(test);
    thread.unwrap().join().unwrap();
}

#[test]
fn steps_and_built_bytes_are_bounded() {
    let numbers = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let text = "a".repeat(200_000);
    let data = format!(r#"{{"list":[{numbers}],"text":"{text}","texts":["{text}"]}}"#);
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let hundred = |body: &str| format!("{ten}.all(a, {ten}.all(b, {body}))");
    let table = [
        ("event.data.list.all(a, a >= 0)", "ok"),
        ("event.data.text.size() > 1", "ok"),
        ("event.name.matches('^[a-zA-Z0-9._%+-]{1,64}@([a-z0-9-]+[.])+[a-z]{2,24}$')", "ok"),
        ("event.name.matches('^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$')", "ok"),
        (
            "event.id + event.data.list.map(a, event.data.list.map(b, [1,2,3].map(c, a + b + c)))",
            "expression_too_many_steps",
        ),
        // Scanning the payload and matching patterns also cost steps.
        ("event.data.list.all(a, event.data.text != 'x')", "expression_too_many_steps"),
        ("event.data.text.matches('b')", "expression_too_many_steps"),
        (
            "event.data.list.exists(a, event.name.matches(event.id + 'x'))",
            "expression_too_many_steps",
        ),
        ("event.data.list.map(a, event.id + lowercase(event.data.text))", "expression_too_large"),
        ("event.name.matches(event.data.text)", "expression_bad_pattern"),
    ];
    let loops = [
        hundred(&hundred("a + b + a + b + a + b + a + b >= 0")),
        format!("event.data.texts.all(t, {})", hundred("t == t && t >= t")),
        format!("[1e1000 + 1].all(n, {})", hundred(&format!("{ten}.all(c, n - n == 0)"))),
        format!("[event.id + event.data.text].all(t, {})", hundred("t != 'x' && t != 'y'")),
    ];
    let loops = loops.iter().map(|text| (text.as_str(), "expression_too_many_steps"));
    for (text, expected) in table.into_iter().chain(loops) {
        let code = with_variables(&data, ASYNC, |variables| {
            let expr = Expr::parse(text).unwrap();
            let value = expr.evaluate(variables, Mode::Lenient).map(|_| ());
            value.map_or_else(|error| error.code(), |()| "ok")
        });
        assert_eq!(code, expected, "{text}");
    }
    let large = Expr::parse("event.name.matches('(a{50}){50}')").unwrap_err();
    assert_eq!(large.code(), "expression_bad_pattern");
}

#[test]
fn a_key_is_a_scalar_and_in_lenient_mode_a_list_or_a_map() {
    let key = |text: &str, mode| {
        with_variables(DATA, ASYNC, |variables| {
            match Expr::parse(text).unwrap().key(variables, mode) {
                Ok(Some(key)) => format!("{mode:?}: {key:?}"),
                Ok(None) => format!("{mode:?}: switched off"),
                Err(error) => format!("{mode:?}: {error}"),
            }
        })
    };
    let both = |text: &str| [Mode::Strict, Mode::Lenient].map(|mode| key(text, mode)).to_vec();
    let table = rows(include_str!("tests/keys.txt"), both);
    expect_file!["tests/keys.txt"].assert_eq(&table);
}

#[test]
fn a_bare_path_is_a_path_and_variables_are_listed() {
    let path = |text: &str| Expr::parse(text).unwrap().as_path().map(|path| path.to_string());
    assert_eq!(path("event.data.a.b").as_deref(), Some("a.b"));
    assert_eq!(path("(event.data)['a'][0]").as_deref(), Some("a.0"));
    assert_eq!(path("event.data['x.y']").as_deref(), Some(r#"["x.y"]"#));
    for text in
        ["event.data", "event.name", "async.data.a", "event.data.a + ''", "event.data[event.id]"]
    {
        assert_eq!(path(text), None, "{text}");
    }
    let text = "event.data.a.exists(x, x == async.data.y && x.all(event, event)) || z";
    let expr = Expr::parse(text).unwrap();
    assert_eq!(expr.variables().into_iter().collect::<Vec<_>>(), ["async", "event", "z"]);
}

#[test]
fn a_wait_is_bound_to_its_event_and_filed_under_one_equality() {
    let data = DATA.replace(r#""lone":"\ud800","far":1e99999999999,"#, "");
    let wait = |text: &str, mode| {
        let expr = Expr::parse(text).unwrap();
        let bound = with_variables(&data, ASYNC, |variables| {
            let bound = expr.bind("event", &variables[0].1, mode).unwrap();
            let after = properties::outcome(&bound, &variables[1..], mode);
            assert_eq!(after, properties::outcome(&expr, variables, mode), "{text} as {bound}");
            bound
        });
        let filed = bound.indexed_equality("async", mode).map(|it| {
            let rest = it.rest.map_or("nothing".to_owned(), |rest| rest.to_string());
            format!("{} is {:?}, then {rest}", it.path, it.value)
        });
        format!("{mode:?}: {bound} ({})", filed.as_deref().unwrap_or("not filed"))
    };
    let both = |text: &str| [Mode::Strict, Mode::Lenient].map(|mode| wait(text, mode)).to_vec();
    let table = rows(include_str!("tests/waits.txt"), both);
    expect_file!["tests/waits.txt"].assert_eq(&table);
}

#[test]
fn a_bound_expression_has_a_maximum_size() {
    let data = payload(&format!(r#"["{}"]"#, "a".repeat(MAX_BOUND_BYTES)));
    let expr = Expr::parse("async.data.a in event").unwrap();
    let error = expr.bind("event", &Value::of(&data), Mode::Strict).unwrap_err();
    assert_eq!(error.code(), "expression_too_large");
}
