//! Functions of expressions. `f(a, b)` and `a.f(b)` are two spellings of the same call.

use std::borrow::Cow;

use regex_lite::{Regex, RegexBuilder};

use super::{
    MAX_CHARS,
    error::ExprErrorKind,
    eval::{Evaluator, Outcome},
    number,
    value::{Type, Value},
};
use crate::{key::Decimal, time::Timestamp};

/// Size limits of compiled patterns in KiB. They are tried from the smallest, because the time to
/// match a byte of text grows with the size.
const PATTERN_KIB: [usize; 3] = [2, 8, 32];

/// Number of steps per KiB of the pattern and byte of the text, measured with the slowest patterns.
const MATCH_STEPS: usize = 3;

/// Number of steps for compiling a pattern that is not a literal.
const COMPILE_STEPS: usize = 1000;

/// Units of `duration`, in milliseconds.
const UNITS: [(&str, i64); 6] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// Function that an expression can call.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// The number of arguments. All functions of two arguments take texts and return a boolean.
    pub(super) arguments: usize,
    pub(super) run: for<'a> fn(&mut Evaluator<'a>, Call<'a>) -> Outcome<Value<'a>>,
}

/// Call of a function with its arguments.
pub(super) struct Call<'a> {
    pub(super) name: &'static str,
    pub(super) first: Value<'a>,
    /// The second argument; the empty text if there is none.
    pub(super) second: Value<'a>,
    /// The compiled pattern, if it is a literal.
    pub(super) pattern: Option<&'a Pattern>,
}

/// Compiled pattern of `matches`.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    kib: usize,
}

/// All functions.
pub(super) static FUNCTIONS: [Function; 12] = [
    Function { name: "size", arguments: 1, run: size },
    Function { name: "contains", arguments: 2, run: contains },
    Function { name: "startsWith", arguments: 2, run: starts_with },
    Function { name: "endsWith", arguments: 2, run: ends_with },
    Function { name: MATCHES, arguments: 2, run: matches },
    Function { name: "int", arguments: 1, run: int },
    Function { name: "double", arguments: 1, run: double },
    Function { name: "string", arguments: 1, run: string },
    Function { name: "timestamp", arguments: 1, run: timestamp },
    Function { name: "duration", arguments: 1, run: duration },
    Function { name: "lowercase", arguments: 1, run: lowercase },
    Function { name: "uppercase", arguments: 1, run: uppercase },
];

/// Name of the function whose second argument is a pattern.
pub(super) const MATCHES: &str = "matches";

/// Returns both arguments as texts; in lenient mode null counts as the empty text.
fn texts<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<[Cow<'a, str>; 2]> {
    let text = |value: Value<'a>| match value {
        Value::Text(text) => Ok(text),
        Value::Null if evaluator.is_lenient() => Ok(Cow::Borrowed("")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Json(_) | Value::Record(_) => {
            let subject = format!("an argument of `{}`", call.name);
            Err(evaluator.wrong_type(&subject, "a text", &value))
        }
    };
    let [first, second] = [text(call.first)?, text(call.second)?];
    evaluator.scan(first.len() + second.len())?;
    Ok([first, second])
}

/// Converts the argument to a number: parses a text, and returns a number unchanged.
fn read<'a>(
    evaluator: &Evaluator<'a>,
    call: &Call<'a>,
    example: &str,
    parse: fn(&str) -> Option<Decimal>,
) -> Outcome<Value<'a>> {
    let Value::Text(text) = &call.first else {
        return evaluator.number(call.name, &call.first).map(Value::Number);
    };
    let number = Some(text).filter(|text| text.len() <= MAX_CHARS).and_then(|text| parse(text));
    number.map(Value::number).ok_or_else(|| {
        let message = format!("`{}` cannot read {}: write it as {example}", call.name, call.first);
        evaluator.error(ExprErrorKind::BadValue, message)
    })
}

/// Returns the number of characters of a text, elements of a list or members of a map.
fn size<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    let size = if let Value::Text(text) = &call.first {
        evaluator.scan(text.len())?;
        text.chars().count()
    } else {
        evaluator.items(&call.first)?.len()
    };
    Ok(Value::number(i64::try_from(size).expect("the size of a value fits into an i64")))
}

fn contains<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    texts(evaluator, call).map(|[text, part]| Value::Bool(text.contains(&*part)))
}

fn starts_with<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    texts(evaluator, call).map(|[text, part]| Value::Bool(text.starts_with(&*part)))
}

fn ends_with<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    texts(evaluator, call).map(|[text, part]| Value::Bool(text.ends_with(&*part)))
}

fn matches<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    let literal = call.pattern;
    let [text, pattern] = texts(evaluator, call)?;
    let pattern = if let Some(pattern) = literal {
        Cow::Borrowed(pattern)
    } else {
        evaluator.spend(COMPILE_STEPS)?;
        let pattern = compile(&pattern);
        Cow::Owned(pattern.map_err(|reason| evaluator.error(ExprErrorKind::BadPattern, reason))?)
    };
    evaluator.spend(text.len() * pattern.kib * MATCH_STEPS)?;
    Ok(Value::Bool(pattern.regex.is_match(&text)))
}

fn int<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    let value = double(evaluator, call)?;
    Ok(Value::number(number::whole(&*evaluator.number("int", &value)?)))
}

fn double<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    read(evaluator, &call, "\"12.5\"", |text| Decimal::parse(text.trim()).ok())
}

/// Returns the text of a scalar, or the canonical JSON of a list or a map.
fn string<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    if matches!(call.first.kind(), Type::Null | Type::Text) {
        return texts(evaluator, call).map(|[text, _]| Value::Text(text));
    }
    evaluator.canonical(&call.first).map(Value::text)
}

/// Parses an RFC 3339 time into milliseconds since 1970, the unit of `event.ts`.
fn timestamp<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    read(evaluator, &call, "\"2026-01-31T12:00:00Z\"", |text| {
        let micros = Timestamp::parse_rfc3339(text)?.micros();
        Decimal::parse(&format!("{micros}e-3")).ok()
    })
}

/// Parses a duration such as `2h45m` into milliseconds.
fn duration<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    read(evaluator, &call, "\"2h45m\"", milliseconds)
}

fn lowercase<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    let [text, _] = texts(evaluator, call)?;
    evaluator.build(text.to_lowercase())
}

fn uppercase<'a>(evaluator: &mut Evaluator<'a>, call: Call<'a>) -> Outcome<Value<'a>> {
    let [text, _] = texts(evaluator, call)?;
    evaluator.build(text.to_uppercase())
}

/// Compiles a pattern, or returns the reason why this is not possible.
pub(super) fn compile(pattern: &str) -> Result<Pattern, String> {
    let mut reason = format!("it must have at most {MAX_CHARS} bytes");
    for kib in PATTERN_KIB.into_iter().filter(|_| pattern.len() <= MAX_CHARS) {
        match RegexBuilder::new(pattern).size_limit(kib * 1024).build() {
            Ok(regex) => return Ok(Pattern { regex, kib }),
            Err(error) => reason = error.to_string(),
        }
    }
    let shown: String = pattern.chars().take(40).collect();
    Err(format!("the pattern `{shown}` cannot be used: {reason}"))
}

/// Parses a duration such as `2h45m`. Returns milliseconds.
fn milliseconds(text: &str) -> Option<Decimal> {
    let (negative, mut rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let mut sum = Decimal::from(0);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|it: char| it.is_ascii_alphabetic())?);
        let end = after.find(|it: char| !it.is_ascii_alphabetic()).unwrap_or(after.len());
        let (_, ms) = UNITS.iter().find(|(unit, _)| *unit == &after[..end])?;
        sum = sum.plus(&number::product(&Decimal::parse(digits).ok()?, &Decimal::from(*ms))?)?;
        rest = &after[end..];
    }
    Some(if negative { number::negated(&sum) } else { sum })
}
