//! Lenient parser for responses with values that `serde_json::Value` cannot hold.
//!
//! Payloads are stored byte for byte, so a response may contain half a surrogate pair or a number
//! that is too large for a float. A command that lists a thousand events must not fail because of
//! one such value.

use serde_json::Value;

/// Parses JSON. Half a surrogate pair becomes U+FFFD, and a number out of range becomes text.
pub(super) fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| {
        // If the text is not JSON at all, the first error is returned.
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|_| error)?;
        serde_json::from_str(&replace_odd(text))
    })
}

/// Returns the same document with only values that a `Value` can hold.
fn replace_odd(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, odd) = match first {
            '"' => ("\"", None),
            '-' | '0'..='9' => number(rest),
            _ => (&rest[..first.len_utf8()], None),
        };
        out.push_str(odd.as_deref().unwrap_or(token));
        rest = &rest[token.len()..];
        if first == '"' {
            rest = string(rest, &mut out);
        }
    }
    out
}

/// Splits off a number. Returns its text, and its replacement if it is out of range.
fn number(text: &str) -> (&str, Option<String>) {
    let end = text.find(|it: char| !matches!(it, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
    let token = &text[..end.unwrap_or(text.len())];
    let fits = token.parse::<f64>().is_ok_and(f64::is_finite);
    (token, (!fits).then(|| format!("\"{token}\"")))
}

/// Copies a string up to its closing quote to `out`. Returns the text after it.
fn string<'a>(mut text: &'a str, out: &mut String) -> &'a str {
    while let Some(at) = text.find(['"', '\\']) {
        out.push_str(&text[..at]);
        text = &text[at..];
        if let Some(rest) = text.strip_prefix('"') {
            out.push('"');
            return rest;
        }
        let (taken, written) = match (code_unit(text), text.get(6..).and_then(code_unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => (12, &text[..12]),
            (Some(0xd800..0xe000), _) => (6, "\\ufffd"),
            (Some(_), _) => (6, &text[..6]),
            (None, _) => (2, &text[..2]),
        };
        out.push_str(written);
        text = &text[taken..];
    }
    text
}

/// Returns the code unit of the `\uXXXX` escape at the beginning of the text, if there is one.
fn code_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn only_what_cannot_be_held_is_replaced() {
        for (text, value) in [
            (
                r#"{"a": [1, -2.5e3, "x\"\\\u00e9"], "b": 1e400}"#,
                json!({ "a": [1, -2500.0, "x\"\\é"], "b": "1e400" }),
            ),
            (
                r#"["\ud800", "\udc00x", "\ud83e\udd80", "\ud800\ud83e\udd80", "-1e999 "]"#,
                json!(["\u{fffd}", "\u{fffd}x", "🦀", "\u{fffd}🦀", "-1e999 "]),
            ),
            (r#"{"\ud800": {"1e400": -1e400}}"#, json!({ "\u{fffd}": { "1e400": "-1e400" } })),
            ("null", json!(null)),
        ] {
            assert_eq!(read(text).ok(), Some(value), "{text}");
        }
        for text in ["", "<html>", "{", "[1e400", "\"\\ud800"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
